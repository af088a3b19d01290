# Mirrors core/.
