"""A tracer provider whose spans are kept in memory, as the tests read them."""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Recorded:
    """Spans of one provider, by name, in the order of their ends."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("test")

    @property
    def ended(self):
        return list(self.exporter.get_finished_spans())

    def named(self, name):
        return [span for span in self.ended if span.name == name]

    def one(self, name):
        [span] = self.named(name)
        return span

    def span(self, name):
        """A context manager: a span of the application, current within."""
        return self.tracer.start_as_current_span(name)


def links(span):
    """The ids of the spans that a span has links to."""
    return [link.context.span_id for link in span.links]
