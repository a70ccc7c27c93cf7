/**
 * The part of the supervisor script below the supervisor: the guard, and the process that becomes the command.
 */
export const COMMAND = `# The guard: the command's parent, which detects the supervisor's death.
guard() {
  stage=$1 id=$2 files=$3 mark=\${1##*@new-} guard=$$ input=/dev/null
  trap : HUP INT QUIT PIPE TERM USR1 USR2 ALRM
  exec 6<"$stage/life" 3>&-
  [ ! -f "$stage/$id/stdin" ] || input=$stage/$id/stdin
  setsid sh "$self" "$root" run "$stage" "$files" 6<&- 9<&- <"$input" >>"$stage/$id/output.log" 2>&1 &
  command=$!
  exec 8<&-
  while read -r word <&6; do
    case $word in
    wait)
      wait "$command"
      echo $? >&4
      ;;
    bye) exit 0 ;;
    esac
  done
  crash
}

# The command: first the checks that can refuse it, then the wait for permission, then exec.
run() {
  stage=$1 files=$2
  # Sets nacre_cwd and nacre_kind, and the words for env(1).
  . "$stage/words"
  unset CDPATH
  [ -z "$nacre_cwd" ] || cd -- "$nacre_cwd" 2>/dev/null || refused CWD_NOT_FOUND
  [ "$files" -eq 0 ] || ulimit -n "$files" 2>/dev/null || refused LIMIT_UNSUPPORTED openFiles
  case $PWD in
  *[!A-Za-z0-9/._-]*) printf %s "$PWD" | tr -d '\\001-\\037' | sed 's/[\\\\"]/\\\\&/g' ;;
  *) printf %s "$PWD" ;;
  esac >"$stage/cwd"
  if [ "$nacre_kind" = text ]; then
    shell=$(command -v bash || command -v sh)
    if [ "$(wc -c <"$stage/command")" -lt 100000 ]; then
      # The x preserves trailing newlines.
      text=$(cat "$stage/command" && echo x)
      set -- "$@" "$shell" -c -- "\${text%x}" "\${shell##*/}"
    else
      # One argument cannot be longer than 128 KiB.
      exec 9<"$stage/command"
      set -- "$@" "$shell" -c 'eval "exec 9<&-;$(cat <&9)"' "\${shell##*/}"
    fi
  fi
  # Shells start background processes with these two ignored; some env(1) can undo that.
  signals=--default-signal=INT,QUIT
  env "$signals" true 2>/dev/null || signals=
  read -r mask <"$stage/umask" && umask "$mask"
  echo "ready $$" >&4
  exec 4>&-
  read -r word <&8 || exit 0
  exec 8<&-
  [ -z "$signals" ] || exec env "$signals" "$@"
  exec env "$@"
}

# Reports that the command cannot be started.
refused() {
  echo "refused $*" >&4
  exit 1
}
`
