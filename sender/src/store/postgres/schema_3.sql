-- Schema 3: each index of what waits serves the statements that are made for it, and no others.
--
-- Whoever has analysed the table finds next to nothing waiting in it, so that to PostgreSQL each of these indexes is as good as
-- another, for any statement about what waits. It may then look for the front of a queue in the order in which deliveries expire. An
-- index is used only where a statement says what its WHERE says: so each says that a delivery waits in words of its own.
--
-- While they are made nobody writes to the table; dropping the others is quick.
CREATE INDEX deliveries_expires ON deliveries (expires, delivery) WHERE state + 0 = 0;
CREATE INDEX deliveries_alike ON deliveries (lane, coalesce, at) WHERE 0 + state = 0 AND coalesce IS NOT NULL;
DROP INDEX deliveries_expiring;
DROP INDEX deliveries_coalescing;
