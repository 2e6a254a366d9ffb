# A private PostgreSQL server: makes a folder, then carries out orders from its standard input, a line each, and ends with it.
# server.sh PROGRAMS FSYNC
set -eu
umask 077
folder=$(mktemp -d "${TMPDIR:-/tmp}/hookproof-postgres-XXXXXX")
server=
trap '[ -z "$server" ] || kill -QUIT "$server" 2>/dev/null || true; wait || true; rm -rf "$folder"' EXIT
trap 'exit 1' TERM INT HUP
"$1/initdb" -D "$folder/data" -U hookproof -A trust -E UTF8 --locale=C --no-sync >"$folder/initdb" 2>&1 || { cat "$folder/initdb" >&2; exit 1; }
echo "$folder"
while read -r order; do
  case $order in
    start)
      "$1/postgres" -D "$folder/data" -k "$folder" -c listen_addresses= -c fsync="$2" -c max_connections=200 \
        -c log_min_messages=log -c log_min_error_statement=panic &
      server=$!
      ;;
    kill) kill -KILL "$server"; wait "$server" || true ;;
  esac
done
