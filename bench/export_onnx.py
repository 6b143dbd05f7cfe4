"""Export networks written in PyTorch, with random weights, to ONNX files: real code for `real_models.py` and the tests.

    /path/to/python bench/export_onnx.py --out models
    /path/to/python bench/export_onnx.py --out models --quantize
    /path/to/python bench/export_onnx.py --out tests/data --small

Needs PyTorch and onnx, onnxscript for PyTorch's newer exporter (--dynamo), and onnxruntime to quantise (--quantize).
"""

from __future__ import annotations

import argparse
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np

try:
    import torch
except ModuleNotFoundError:
    sys.exit(f"{__doc__}\nThis Python has no PyTorch.")

# features of a token, heads, features inside, layers, tokens
ENCODERS = {"encoder": (768, 12, 3072, 1, 128), "encoder_small": (16, 2, 32, 1, 6)}
PERCEPTRONS = {"mlp": (479, 1024, 1024, 512, 256, 1), "mlp_small": (13, 24, 16, 8)}


def perceptron(sizes: tuple[int, ...]) -> torch.nn.Module:
    """A perceptron with relu between its layers."""
    layers: list[torch.nn.Module] = []
    for k, n in pairwise(sizes):
        layers += [torch.nn.Linear(k, n), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers).eval()


class Encoder(torch.nn.Module):
    """A stack of PyTorch's own encoder layers, without its shortcut for inference, which cannot be exported."""

    def __init__(self, features: int, heads: int, inside: int, layers: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(features, heads, inside, activation="gelu", batch_first=True)
            for _ in range(layers)
        )
        for layer in self.layers:
            for name, parameter in layer.named_parameters():
                # PyTorch's are ones and zeros: other numbers show whether they are used at all.
                if "norm" in name:
                    torch.nn.init.normal_(parameter, mean=1.0 if name.endswith("weight") else 0.0, std=0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run every layer."""
        for layer in self.layers:
            x = layer(x)
        return x


def networks(small: bool) -> dict[str, tuple[torch.nn.Module, torch.Tensor]]:
    """Return the networks and an input of each."""
    torch.manual_seed(0)
    suffix = "_small" if small else ""
    features, heads, inside, layers, tokens = ENCODERS[f"encoder{suffix}"]
    sizes = PERCEPTRONS[f"mlp{suffix}"]
    return {
        f"mlp{suffix}": (perceptron(sizes), torch.randn(4, sizes[0])),
        f"encoder{suffix}": (Encoder(features, heads, inside, layers).eval(), torch.randn(2, tokens, features)),
    }


def export(module: torch.nn.Module, x: torch.Tensor, path: Path, dynamo: bool) -> None:
    """Write one file, the batch size left open."""
    # Its shortcut is one operator that only PyTorch has.
    torch.backends.mha.set_fastpath_enabled(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            shapes = ({0: torch.export.Dim("batch", min=1)},)
            torch.onnx.export(module, (x,), str(path), dynamo=True, external_data=False, input_names=["x"],
                              output_names=["y"], dynamic_shapes=shapes, verbose=False)  # fmt: skip
        else:
            torch.onnx.export(module, (x,), str(path), dynamo=False, opset_version=14, input_names=["x"],
                              output_names=["y"], dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})  # fmt: skip


def strip(path: Path) -> None:
    """Take out where in PyTorch's source every node came from: paths of this machine, and most of a small file."""
    import onnx

    model = onnx.load(path)
    del model.metadata_props[:], model.graph.metadata_props[:], model.graph.value_info[:]
    for one in (*model.graph.node, *model.graph.initializer, *model.graph.input, *model.graph.output):
        one.doc_string = ""
        del one.metadata_props[:]
    onnx.save(model, path)


def quantize(path: Path, x: torch.Tensor) -> list[Path]:
    """Write a file's products in bytes by ONNX Runtime's tools: with scales from samples, and with each call's own."""
    from onnxruntime import quantization

    class Samples(quantization.CalibrationDataReader):
        left = 4

        def get_next(self) -> dict[str, np.ndarray] | None:
            self.left -= 1
            rng = np.random.default_rng(abs(self.left))
            return None if self.left < 0 else {"x": rng.standard_normal(x.shape, np.float32)}

    made = [path.with_name(f"{path.stem}_{how}.onnx") for how in ("bytes", "dynamic")]
    quantization.quantize_static(
        str(path), str(made[0]), Samples(), quant_format=quantization.QuantFormat.QDQ, per_channel=True,
        activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Gemm"],
    )  # fmt: skip
    quantization.quantize_dynamic(str(path), str(made[1]), weight_type=quantization.QuantType.QInt8)
    return made


def main() -> None:
    """Write every network by both exporters."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--out", type=Path, default=Path("models"), help="folder (default models)")
    made.add_argument("--small", action="store_true", help="a few KiB each, as in tests/data")
    made.add_argument("--dynamo", action="store_true", help="by torch.export as well, to NAME_dynamo.onnx")
    made.add_argument("--quantize", action="store_true", help="in bytes as well, to NAME_bytes.onnx, NAME_dynamic.onnx")
    options = made.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, (module, x) in networks(options.small).items():
        for dynamo in (False, True) if options.dynamo else (False,):
            path = options.out / f"{name}{'_dynamo' if dynamo else ''}.onnx"
            export(module, x, path, dynamo)
            strip(path)
            for file in (path, *(quantize(path, x) if options.quantize else [])):
                print(f"{file}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
