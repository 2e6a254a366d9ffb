# A private PostgreSQL server: makes a folder, then carries out orders from its standard input, a line each, and ends with it.
# server.sh PROGRAMS FSYNC [PORT]: with a port, it is reached over TLS there alone, with the key and the certificate that
# come first on standard input, up to an empty line.
set -eu
umask 077
folder=$(mktemp -d "${TMPDIR:-/tmp}/hookproof-postgres-XXXXXX")
server=
trap '[ -z "$server" ] || kill -QUIT "$server" 2>/dev/null || true; wait || true; rm -rf "$folder"' EXIT
trap 'exit 1' TERM INT HUP
"$1/initdb" -D "$folder/data" -U hookproof -A trust -E UTF8 --locale=C --no-sync >"$folder/initdb" 2>&1 || { cat "$folder/initdb" >&2; exit 1; }
set -- "$1" "$2" "${3-}"
tls="-c listen_addresses="
if [ -n "$3" ]; then
  while read -r line && [ -n "$line" ]; do echo "$line"; done >"$folder/server.pem"
  echo "hostssl all all all trust" >"$folder/data/pg_hba.conf"
  tls="-c listen_addresses=127.0.0.1 -c port=$3 -c ssl=on -c ssl_cert_file=$folder/server.pem -c ssl_key_file=$folder/server.pem"
fi
echo "$folder"
while read -r order; do
  case $order in
    start)
      # shellcheck disable=SC2086 # Its words are settings.
      "$1/postgres" -D "$folder/data" -k "$folder" $tls -c fsync="$2" -c max_connections=200 \
        -c log_min_messages=log -c log_min_error_statement=panic &
      server=$!
      ;;
    kill) kill -KILL "$server"; wait "$server" || true ;;
  esac
done
