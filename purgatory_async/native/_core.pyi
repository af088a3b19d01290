from typing import Any

sources: str

def take_over(twin: type, reference: type) -> None: ...
def __getattr__(name: str) -> Any: ...  # pyright: ignore[reportIncompleteStub] # the twins
