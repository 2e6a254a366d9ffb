# What stands in for a container: carries out a command until that ends. By a line on its input the command gets a signal; with
# the end of its input it ends at once.
# sh -c SCRIPT SCRIPT COMMAND
[ "$(id -u)" != 0 ] || exec setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups sh -c "$0" "$0" "$@"
exec 3<&0
"$@" </dev/null 2>&1 3<&- &
process=$!
# Whoever reads what the command says sees its end.
exec >/dev/null 2>&1
if read -r signal <&3; then
  kill -"$signal" "$process"
else
  # PostgreSQL ends at once by the first, and waits for its clients by the second; PgBouncer knows only that.
  kill -QUIT "$process"
  kill -TERM "$process"
fi
wait "$process"
