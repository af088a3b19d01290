"""The arithmetic of the pipeline on columns: numpy and Arrow, plain values in and out, no Spark, no Java."""
