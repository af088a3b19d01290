# Mirrors timing/.
