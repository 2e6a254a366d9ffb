-- What an inbox of version 1 holds, in the tables of this version. Its `received` had every delivery, and an index of ids.
INSERT INTO received SELECT seq, id, received_ms, event, content_type, ifnull(body, x'') FROM received_1
  WHERE due_ms IS NOT NULL AND attempts = 0;
INSERT INTO inbox_failed
  SELECT seq, id, received_ms, event, content_type, ifnull(body, x''), attempts, due_ms, finished_ms, ifnull(error, '')
  FROM received_1
  WHERE (due_ms IS NOT NULL AND attempts <> 0) OR (finished_ms IS NOT NULL AND error IS NOT NULL);
INSERT INTO effects SELECT seq, id, done_ms FROM effects_1;
DROP TABLE received_1;
DROP TABLE effects_1;
-- All ids are known before the first arrival, in place of with it.
INSERT OR IGNORE INTO inbox_ids SELECT id FROM received UNION ALL SELECT id FROM inbox_failed UNION ALL SELECT id FROM effects
  ORDER BY id;
UPDATE inbox_indexed SET effect = (SELECT ifnull(max(seq), 0) FROM effects),
  delivery = max((SELECT ifnull(max(seq), 0) FROM received), (SELECT ifnull(max(seq), 0) FROM inbox_failed));
