# A private PostgreSQL server: makes a folder and says on standard output where it is, then carries out orders from its standard
# input, a line each, and ends with it. Without PostgreSQL's programs it ends at once, with 3.
# sh -c SCRIPT SCRIPT FSYNC [PORT [FIRST]]
# With a port, the server is reached over TLS there alone; the key and the certificate come first on standard input, up to an
# empty line. With the folder of a first server, which runs, it is a standby that follows that one.
set -eu
# A word to a harness that is gone must fail, so that the script tidies up at its end: a signal would end it at once. PostgreSQL's
# programs ignore this signal by themselves.
trap '' PIPE
# Root may start no server, nor, in some containers, send signals to one of somebody else.
[ "$(id -u)" != 0 ] || exec setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups sh -c "$0" "$0" "$@"
umask 077
cd /
LC_ALL=C
export LC_ALL

# The folder with the programs: on the PATH, or the newest that Debian has installed. Beside a program that a link leads to are the
# others of its version.
programs() (
  IFS='
'
  for folder in $(echo "$PATH" | tr : '\n') $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV); do
    if [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ]; then dirname "$(readlink -f "$folder/postgres")" && return; fi
  done
  return 3
)

programs=$(programs) || exit 3
folder=$(mktemp -d "${TMPDIR:-/tmp}/hookproof-postgres-XXXXXX")
server=
trap '[ -z "$server" ] || kill -QUIT "$server" 2>/dev/null || true; wait || true; rm -rf "$folder"' EXIT
trap 'exit 1' TERM INT HUP
if [ -n "${3-}" ]; then
  set -- "$1" "$2" pg_basebackup -h "$3" -U hookproof -c fast -R
else
  set -- "$1" "${2-}" initdb -U hookproof -A trust -E UTF8 --locale=C
fi
fsync=$1 port=$2 make=$3
shift 3
"$programs/$make" -D "$folder/data" --no-sync "$@" >"$folder/made" 2>&1 || { cat "$folder/made" >&2; exit 1; }
set -- -c listen_addresses=
if [ -n "$port" ]; then
  while read -r line && [ -n "$line" ]; do echo "$line"; done >"$folder/server.pem"
  echo "hostssl all all all trust" >"$folder/data/pg_hba.conf"
  set -- -c listen_addresses=127.0.0.1 -c port="$port" -c ssl=on -c ssl_cert_file="$folder/server.pem" \
    -c ssl_key_file="$folder/server.pem"
fi
echo "$folder"
while read -r order; do
  case $order in
    start)
      "$programs/postgres" -D "$folder/data" -k "$folder" "$@" -c fsync="$fsync" -c max_connections=1000 \
        -c log_min_messages=log -c log_min_error_statement=panic &
      server=$!
      ;;
    kill) kill -KILL "$server"; wait "$server" || true ;;
    # In immediate mode: its clients are cut off, and it recovers as after a crash.
    stop) kill -QUIT "$server"; wait "$server" || true; server=; echo stopped ;;
  esac
done
