# What the image of PostgreSQL does with its command: with an empty folder it makes the database first, by a server with the same
# options that is reached by its socket alone, and has the scripts of /docker-entrypoint-initdb.d carried out, here of $INIT.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb -D "$PGDATA" -U "$POSTGRES_USER" -E UTF8 --locale=C --no-sync
  # What holds for this machine alone is of no use to other containers, and would hide here that they are not let in.
  sed -i '/^host/d' "$PGDATA/pg_hba.conf"
  echo "host all all all $POSTGRES_HOST_AUTH_METHOD" >>"$PGDATA/pg_hba.conf"
  pg_ctl -D "$PGDATA" -p "$(command -v "$1")" -o "$(shift && echo "$*") -c listen_addresses=''" -w start
  trap 'pg_ctl -D "$PGDATA" -m immediate stop' EXIT
  # Nobody else is there to be waited for: who waits so long waits for ever.
  timeout 60 psql -X -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d postgres -c "CREATE DATABASE $POSTGRES_DB"
  for script in "$INIT"/*; do "$script"; done
  trap - EXIT
  pg_ctl -D "$PGDATA" -m fast -w stop
  # For the test: what others may wait for.
  touch made
fi
exec "$@"
