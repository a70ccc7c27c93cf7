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

# Inspects process $1: sets state, started and code (its status for wait(2), known once it is a zombie). The shell reads the
# file itself, without another process, since this is done often.
look() {
  stat=
  { while IFS= read -r line || [ -n "$line" ]; do stat="$stat $line"; done <"/proc/$1/stat"; } 2>/dev/null
  case $stat in *') '*) ;; *) return 1 ;; esac
  # The name of the program is in parentheses and can be anything; the fields after the last one are numbers.
  set -- \${stat##*) }
  state=$1 started=\${20} code=\${50}
}

# True if process $1 is the one that started at tick $2, and not a zombie.
is_alive() {
  look "$1" && [ "$started" = "$2" ] && case $state in Z | X) false ;; esac
}

# Sets members to all running processes of a job: those with $mark in their environment, those in the session or group of
# $command, if set, and all of their descendants.
find_members() {
  members=' '
  if [ -n "$mark" ]; then
    while marked=$(grep -lszF "NACRE_JOB=$mark" /proc/[0-9]*/environ); is_killed $?; do :; done
    for file in $marked; do
      file=\${file#/proc/}
      members="$members\${file%/environ} "
    done
  fi
  while table=$(cat /proc/[0-9]*/stat 2>/dev/null); is_killed $?; do :; done
  more=yes dead=' '
  while [ -n "$more" ]; do
    more=
    IFS='
'
    for line in $table; do
      IFS=' '
      pid=\${line%% *}
      set -- \${line##*) }
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

# True if process $1 has the job's output as its standard output or error.
has_output() {
  [ "/proc/$1/fd/1" -ef "$directory/output.log" ] || [ "/proc/$1/fd/2" -ef "$directory/output.log" ]
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
