-- The tables and functions of a log. Run in one transaction under an advisory lock when the log is first opened.
-- For another name than "purgatory", that word is replaced throughout.

-- pg_temp last: a session's own temporary table must not take the place of one of these.
SELECT set_config('search_path', format('%I, pg_temp', current_schema()), true);

CREATE TABLE IF NOT EXISTS purgatory_head(
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    epoch text NOT NULL,
    position bigint NOT NULL,
    at_us bigint NOT NULL,
    checkpoint bigint NOT NULL,
    level int NOT NULL,
    place text NOT NULL, -- the database and this table, by numbers that no copy has
    -- Any role of the database may listen and notify; on this channel, only one that may read the log.
    channel text NOT NULL DEFAULT replace(gen_random_uuid()::text, '-', '')
) WITH (fillfactor = 20); -- room for new versions of its only row beside the old ones

CREATE TABLE IF NOT EXISTS purgatory_log(position bigint PRIMARY KEY, at_us bigint NOT NULL, entry bytea NOT NULL);

CREATE TABLE IF NOT EXISTS purgatory_checkpoint(
    position bigint, part int, data bytea NOT NULL, PRIMARY KEY (position, part)
);

CREATE TABLE IF NOT EXISTS purgatory_outbox(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, entry jsonb NOT NULL
);

INSERT INTO purgatory_head(epoch, position, at_us, checkpoint, level, place)
SELECT replace(gen_random_uuid()::text, '-', ''), 0, 0, 0, 1, d.oid || '.' || 'purgatory_head'::regclass::oid
FROM pg_database d WHERE d.datname = current_database()
ON CONFLICT DO NOTHING;

-- What tells an entry from another one at the same position.
CREATE OR REPLACE FUNCTION purgatory_digest(at_us bigint, entry bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$ SELECT sha256(int8send(at_us) || entry) $$;

-- Append a batch, after the committed rows of the outbox, at consecutive positions. An empty one only moves those rows.
-- The lock on the head makes the order of positions the order of commits, without holes; a sequence would not.
--
-- With an epoch: refuses with SQLSTATE 55000 if the log has another one, or lost the entry at the position "known".
CREATE OR REPLACE FUNCTION purgatory_append(
    entries bytea[], expected text DEFAULT NULL, known bigint DEFAULT 0, known_digest bytea DEFAULT NULL,
    OUT first bigint, OUT at_us bigint
) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    head purgatory_head;
    present bytea;
    moved bytea[] := '{}';
    stamp bigint;
    news text := '';
BEGIN
    IF entries IS NULL OR cardinality(entries) > 1000 OR array_position(entries, NULL) > 0 THEN
        RAISE EXCEPTION 'a batch must have at most 1000 entries, none NULL, got %', cardinality(entries)
            USING ERRCODE = '22023';
    END IF;
    IF cardinality(entries) = 0 AND NOT EXISTS (SELECT FROM purgatory_outbox) THEN
        RETURN;
    END IF;
    SELECT h.* INTO head FROM purgatory_head h FOR UPDATE;
    IF NOT FOUND OR head.at_us NOT BETWEEN 0 AND 253402300799999999 THEN -- the end of the year 9999
        RAISE EXCEPTION 'the log must have a head with a log time, got %', to_json(head) USING ERRCODE = 'XX001';
    END IF;
    SELECT purgatory_digest(l.at_us, l.entry) INTO present FROM purgatory_log l WHERE l.position = known;
    IF head.epoch <> expected OR known > head.position OR present <> known_digest THEN
        RAISE EXCEPTION 'the log lost entries: it has epoch % and position %', head.epoch, head.position
            USING ERRCODE = '55000';
    ELSIF known > 0 AND known = head.position AND present IS NULL THEN
        RAISE EXCEPTION 'entry % must be there, the newest one', known USING ERRCODE = 'XX001';
    END IF;
    -- Every statement after the lock sees what was committed before it: a row that began after another one's commit
    -- has a higher id, so the order of ids keeps the order of causes.
    IF EXISTS (SELECT FROM purgatory_outbox) THEN
        WITH free AS (
            SELECT o.id, convert_to(o.entry::text, 'UTF8') AS entry
            FROM purgatory_outbox o ORDER BY o.id LIMIT 1000 FOR UPDATE SKIP LOCKED
        ), few AS (
            SELECT f.id, f.entry, sum(octet_length(f.entry)) OVER (ORDER BY f.id ROWS UNBOUNDED PRECEDING) AS bytes
            FROM free f
        ), gone AS (
            DELETE FROM purgatory_outbox o USING few f WHERE o.id = f.id AND f.bytes <= 4194304
            RETURNING f.id, f.entry
        )
        SELECT coalesce(array_agg(g.entry ORDER BY g.id), '{}') INTO moved FROM gone g;
    END IF;
    IF cardinality(moved) + cardinality(entries) = 0 THEN
        RETURN;
    END IF;
    stamp := greatest(head.at_us, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    INSERT INTO purgatory_log(position, at_us, entry)
        SELECT head.position + u.number, stamp, u.entry
        FROM unnest(moved || entries) WITH ORDINALITY u(entry, number);
    UPDATE purgatory_head h
        SET position = head.position + cardinality(moved) + cardinality(entries), at_us = stamp;
    moved := moved || entries;
    IF (SELECT sum(octet_length(m.entry)) FROM unnest(moved) m(entry)) < 6000 THEN
        SELECT concat_ws(' ', head.position + 1, cardinality(moved), stamp, encode(purgatory_digest(l.at_us, l.entry), 'hex'),
                (SELECT string_agg(translate(encode(m.entry, 'base64'), E'\n', ''), ' ' ORDER BY m.number)
                 FROM unnest(moved) WITH ORDINALITY m(entry, number)))
            INTO news FROM purgatory_log l WHERE l.position = head.position;
    END IF;
    IF octet_length(news) BETWEEN 1 AND 7999 THEN
        PERFORM pg_notify(head.channel, news);
    ELSE
        PERFORM pg_notify('purgatory', (head.position + cardinality(moved))::text);
    END IF;
    first := head.position + cardinality(moved) - cardinality(entries) + 1;
    at_us := stamp;
END $$;

-- One read of a follower: the head, the digest of the entry at the position "known", and the next entries.
CREATE OR REPLACE FUNCTION purgatory_read(
    after bigint, known bigint,
    OUT epoch text, OUT newest bigint, OUT oldest bigint, OUT digest bytea, OUT outbox bool,
    OUT first bigint, OUT last bigint, OUT times bigint[], OUT entries bytea[]
) LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    SELECT h.epoch, h.position INTO epoch, newest FROM purgatory_head h;
    SELECT min(s.position), max(s.position), array_agg(s.at_us ORDER BY s.position),
            array_agg(s.entry ORDER BY s.position)
        INTO first, last, times, entries
        FROM (
            SELECT m.*, sum(octet_length(m.entry)) OVER (ORDER BY m.position ROWS UNBOUNDED PRECEDING) AS bytes
            FROM (SELECT l.* FROM purgatory_log l WHERE l.position > after ORDER BY l.position LIMIT 2000) m
        ) s
        WHERE s.bytes <= 8388608;
    IF first = after + 1 THEN
        oldest := first;
    ELSE
        SELECT coalesce(min(l.position), newest + 1) INTO oldest FROM purgatory_log l;
    END IF;
    SELECT purgatory_digest(l.at_us, l.entry) INTO digest FROM purgatory_log l WHERE l.position = known;
    outbox := EXISTS (SELECT FROM purgatory_outbox);
END $$;

-- Make the saved parts of a checkpoint the newest one; refuses with SQLSTATE 55000 if they are not all there.
CREATE OR REPLACE FUNCTION purgatory_publish(saved bigint, parts bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    found_parts bigint;
BEGIN
    PERFORM FROM purgatory_head FOR UPDATE;
    SELECT count(*) INTO found_parts FROM purgatory_checkpoint c WHERE c.position = saved;
    UPDATE purgatory_head SET checkpoint = saved WHERE checkpoint < saved AND found_parts = parts;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'checkpoint % was overtaken or removed by another save: % of % parts are left',
            saved, found_parts, parts USING ERRCODE = '55000';
    END IF;
END $$;

-- Put an entry into the outbox. The NOTIFY goes out at the commit; before it, nothing here holds a lock.
CREATE OR REPLACE FUNCTION purgatory_propose(proposed jsonb) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF octet_length(proposed::text) > 1572864 THEN
        RAISE EXCEPTION 'an entry must be at most 1572864 bytes, got %', octet_length(proposed::text)
            USING ERRCODE = '22023';
    END IF;
    INSERT INTO purgatory_outbox(entry) VALUES (proposed);
    PERFORM pg_notify('purgatory', 'outbox');
END $$;

-- Return a name, or refuse it with SQLSTATE 22023.
CREATE OR REPLACE FUNCTION purgatory_checked(what text, name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
BEGIN
    IF name IS NULL OR octet_length(convert_to(name, 'UTF8')) NOT BETWEEN 1 AND 512 THEN
        RAISE EXCEPTION '% must have 1 to 512 bytes in UTF-8, got %',
            what, coalesce(octet_length(convert_to(name, 'UTF8'))::text, 'NULL') USING ERRCODE = '22023';
    ELSIF name IN ('.', '..') OR name ~ '[\u0001-\u001f\u007f-\u009f]' THEN
        RAISE EXCEPTION '% must have no control characters and be neither . nor .., got %', what, to_json(name)
            USING ERRCODE = '22023';
    END IF;
    RETURN name;
END $$;

-- Signal a key once the calling transaction has committed; after a rollback nothing has happened.
CREATE OR REPLACE FUNCTION purgatory_signal(
    key text, value jsonb DEFAULT NULL, amount bigint DEFAULT 1, voter text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    proposed jsonb := jsonb_build_object('k', 'signal', 'key', purgatory_checked('key', key));
BEGIN
    IF amount IS NULL OR amount NOT BETWEEN 1 AND 9007199254740991 THEN
        RAISE EXCEPTION 'amount must be from 1 to 9007199254740991, got %', coalesce(amount::text, 'NULL')
            USING ERRCODE = '22023';
    END IF;
    IF octet_length(value::text) > 1048576 THEN
        RAISE EXCEPTION 'value must be at most 1048576 bytes as JSON, got %', octet_length(value::text)
            USING ERRCODE = '22023';
    END IF;
    proposed := proposed || jsonb_build_object('amount', amount);
    IF value IS NOT NULL THEN
        proposed := proposed || jsonb_build_object('value', value);
    END IF;
    IF voter IS NOT NULL THEN
        proposed := proposed || jsonb_build_object('voter', purgatory_checked('voter', voter));
    END IF;
    PERFORM purgatory_propose(proposed);
END $$;

-- Put an item into a queue once the calling transaction has committed.
CREATE OR REPLACE FUNCTION purgatory_put(queue text, item jsonb) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF item IS NULL OR octet_length(item::text) > 1048576 THEN
        RAISE EXCEPTION 'item must be JSON of at most 1048576 bytes, got %', coalesce(octet_length(item::text)::text, 'NULL')
            USING ERRCODE = '22023';
    END IF;
    PERFORM purgatory_propose(
        jsonb_build_object('k', 'put', 'queue', purgatory_checked('queue', queue), 'item', item, 'delay', 0)
    );
END $$;
