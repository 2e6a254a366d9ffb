-- What an inbox of version 1 holds, in the tables of this version. Its `received` had every delivery, and an index of ids.
INSERT INTO received SELECT seq, id, received_ms, event, content_type, ifnull(body, x'') FROM received_1
  WHERE due_ms IS NOT NULL AND attempts = 0;
INSERT INTO failed
  SELECT seq, id, received_ms, event, content_type, ifnull(body, x''), attempts, due_ms, finished_ms, ifnull(error, '')
  FROM received_1
  WHERE (due_ms IS NOT NULL AND attempts <> 0) OR (finished_ms IS NOT NULL AND error IS NOT NULL);
INSERT INTO effects SELECT seq, id, done_ms FROM effects_1;
DROP TABLE received_1;
DROP TABLE effects_1;
