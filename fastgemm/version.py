"""The version, read by the build and by `show_config`."""

VERSION = "0.1.0"
