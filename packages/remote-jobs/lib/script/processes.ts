/**
 * The part of the supervisor script that reads /proc: existing processes, and those that belong to a job.
 */
export const PROCESSES = `# Processes as the kernel reports them. Results may be outdated when they are used: compare start times first.

# True for the status $1 of a program that a signal killed. A signal to the supervisor's group also hits the program that it
# is running. That program is run again: a partial table must not count as a complete one.
is_killed() {
  [ "$1" -gt 128 ]
}

# Runs a program again until no signal kills it.
firmly() {
  while
    "$@"
    status=$?
    is_killed "$status"
  do :; done
  return "$status"
}

# Inspects process $1: sets state, started, code (its status for wait(2), known once it is a zombie), and handled and
# blocked, not 0 if it ignores or catches SIGTERM, or blocks it. The shell reads the
# file itself, without another process, since this is done often.
look() {
  stat=
  { while IFS= read -r line || [ -n "$line" ]; do stat="$stat $line"; done <"/proc/$1/stat"; } 2>/dev/null
  case $stat in *') '*) ;; *) return 1 ;; esac
  # The name of the program is in parentheses and can be anything; the fields after the last one are numbers.
  set -- \${stat##*) }
  state=$1 started=\${20} code=\${50} handled=$(((\${31} | \${32}) & 16384)) blocked=$((\${30} & 16384))
}

# True if process $1 is the one that started at tick $2, and not a zombie.
is_alive() {
  look "$1" && [ "$started" = "$2" ] && case $state in Z | X) false ;; esac
}

# Sets members to all running processes of a job: those with $mark in their environment, those in the session or group of
# $command, if set, and all of their descendants. Without a mark, also all descendants of $keeper, if it is alive: a native
# supervisor is their subreaper.
find_members() {
  members=' '
  if [ -z "$mark" ]; then
    ! is_alive "$keeper" "$began" || members=" $keeper "
  else
    while marked=$(grep -lszF "NACRE_JOB=$mark" /proc/[0-9]*/environ); is_killed $?; do :; done
    for file in $marked; do
      file=\${file#/proc/}
      [ "\${file%/environ}" -eq 1 ] || members="$members\${file%/environ} "
    done
  fi
  while table=$(LC_ALL=C grep -sH '' /proc/[0-9]*/stat); is_killed $?; do :; done
  more=yes dead=' '
  set -f
  while [ -n "$more" ]; do
    more=
    IFS='
'
    for line in $table; do
      IFS=' '
      pid=\${line#/proc/}
      pid=\${pid%%/*}
      set -- \${line##*) }
      # The beginning of a name that has a newline is too short to pass for the fields. Init is no member, and so nothing
      # becomes one as its child.
      [ $# -gt 20 ] && [ "$pid" -gt 1 ] || continue
      case $1 in Z | X) dead="$dead$pid " && continue ;; esac
      case $members in *" $pid "*) continue ;; esac
      belongs=no
      case $members in *" $2 "*) belongs=yes ;; esac
      [ -z "$command" ] || case " $3 $4 " in *" $command "*) belongs=yes ;; esac
      [ "$belongs" = yes ] || continue
      members="$members$pid " more=yes
    done
    IFS=$blanks
  done
  set +f
  found=$members members=' '
  for pid in $found; do
    case "$dead$keeper $guard $$ " in *" $pid "*) ;; *) members="$members$pid " ;; esac
  done
  [ "$members" != ' ' ]
}

# Sends signal $1 to all members.
signal_members() {
  for pid in $members; do kill -s "$1" "$pid" 2>/dev/null; done
}

# True if process $1 has the output of the current directory's job as its standard output or error.
has_output() {
  [ "/proc/$1/fd/1" -ef output.log ] || [ "/proc/$1/fd/2" -ef output.log ]
}

# Sets now to the time since boot in hundredths of a second. The wall clock is not used, since it can be set.
clock() {
  read -r now rest </proc/uptime
  now=\${now%.*}\${now#*.}
  while :; do case $now in 0?*) now=\${now#0} ;; *) break ;; esac; done
}

# Sets date to the wall clock as ISO 8601 with milliseconds, which not every date(1) supports.
wall_clock() {
  while date=$(date -u +%Y-%m-%dT%H:%M:%S.%N); is_killed $?; do :; done
  fraction=\${date##*.}
  case $fraction in *[!0-9]* | '') fraction=000 ;; esac
  fraction=\${fraction}000
  date=\${date%%.*}.\${fraction%"\${fraction#???}"}Z
}
`
