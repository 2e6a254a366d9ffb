-- Schema 6: what ended on a lane with window caps since its record is found by when it ended. By when it began, whoever seizes a busy
-- lane would read an hour more than it needs, while all others wait for the lock of leases.
--
-- While it is made nobody writes to the table. A clock that is far ahead is no reason to refuse an attempt: nothing ends after the
-- last moment there is.
DROP INDEX attempts_capped;
CREATE INDEX attempts_capped ON attempts (lane, (at + least(latency, 9223372036854775807 - at))) WHERE capped;
