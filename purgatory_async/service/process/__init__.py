"""The process that serves: sockets, signals, several workers, the order of stopping."""
