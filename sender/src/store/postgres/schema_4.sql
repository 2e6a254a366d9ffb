-- Schema 4: what each commit writes is found without a look at what it was before.
--
-- A row that was changed leaves its former state behind, in the table and in its indexes, until no transaction is open that might
-- see it; and whoever looks for it by a key that stays the same passes over all of those. So these keys grow: the newest comes last in
-- its index, and is found first by whoever reads that backwards.
--
-- A lane's grows with every 64th change, as most changes of a row that touch no index cost less.
ALTER TABLE lanes ADD COLUMN changes int8 NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN era int8 NOT NULL GENERATED ALWAYS AS (changes / 64) STORED;
ALTER TABLE lanes DROP CONSTRAINT lanes_pkey, ADD PRIMARY KEY (lane, era);

-- A writer has 2^32 numbers of its own, one after the other: those that have their upper 31 bits in common.
CREATE VIEW newest_totals AS
    WITH RECURSIVE newest (found) AS (
        (SELECT t FROM totals t ORDER BY t.writer DESC LIMIT 1)
        UNION ALL
        SELECT (SELECT t FROM totals t WHERE t.writer < (n.found).writer >> 32 << 32 ORDER BY t.writer DESC LIMIT 1)
        FROM newest n WHERE n.found IS NOT NULL
    )
    SELECT (found).* FROM newest WHERE found IS NOT NULL;
