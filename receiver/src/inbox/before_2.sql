-- Sets the tables of an inbox of version 1 aside, and their indexes.
DROP INDEX received_due;
DROP INDEX received_finished;
DROP INDEX effects_done;
ALTER TABLE received RENAME TO received_1;
ALTER TABLE effects RENAME TO effects_1;
