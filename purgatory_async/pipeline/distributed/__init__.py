"""The distributed purgatory's two stages in Spark: thin shells around the kernels of the same name."""
