"""Links by which a person answers an operation's question without a token of the service.

| file | holds |
|---|---|
| `link` | `Link`, what a link says, and `Signer`, which makes and opens the token at its end |
| `secrets_file` | the secrets that sign, from a file |
"""
