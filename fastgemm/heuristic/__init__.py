"""The rules: how a product is computed that nobody has tuned, each rule beside the measurement that it comes from.

rules.py            the way through all of them: `config` gives a Problem its Config; of blocked kernels the tile and
                    the team that an estimate in cycles promises most of
packing.py          whether operands are copied, and
blocks.py           the blocks that live in the caches together
family_small.py     which products the other families take, with which tile and team: small kernels without packing,
family_dots.py      dot products,
family_strips.py    few rows by a B in place
matrices.py         products by tile registers
limbs.py            products of float32 by them, cut into limbs
packed_b.py         products by a B that was packed once
chain_items.py      products of a chain's items, whose copies of B stay
ways.py             which way a product is computed (as called, or its transposed output), and where memory begins
strides.py          what strides mean for lines in L1, and which tiles suit them
l1.py, l1_*.py      what an L1 that is small for vectors of 64 bytes changes (`cpu.small_l1`): copies, blocks, streams,
                    stacks, outputs
conversions.py      whether numbers are converted as they are loaded, or packed
brief.py            few steps of k, whose rows of C are written whole
half_tier.py        whose kernels serve a CPU that computes its longest vectors in two halves
measured.py         what tables of measured rules have in common:
half_narrow.py      few columns there, by half_narrow_rules.py,
stacks.py           tiny products in stacks, by stacks_rules.py
costs.py            what all rules count with, in cycles

Nothing is imported here: `fastgemm.problem` asks the lowest of these modules, and the highest ask for problems.
"""
