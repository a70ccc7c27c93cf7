/**
 * The part of the supervisor script that watches a job to its end: timeout, cancel, record.
 */
export const WATCH = `# Checks everything once; false when the job is over and all its processes have exited.
watch() {
  ticks=$((ticks + 1))
  clock
  # Only the guard can learn the exit code. Without it, the job has crashed.
  look "$guard" && [ "$state" != Z ] || crash
  if [ -z "$ended" ]; then
    look "$command" || { state=Z && code=unknown; }
    if [ "$state" = Z ]; then
      record
      [ "$left$deadline" != false ] || return 1
    fi
  elif [ -z "$deadline" ] && ! find_members; then
    return 1
  fi
  if [ -n "$cancelled" ]; then
    cancelled=
    read -r wanted 2>/dev/null <"$directory/cancel" || wanted=$grace
    ladder cancelled "$wanted"
  elif [ "$timeout" -gt 0 ] && [ "$now" -ge $((begun + timeout)) ]; then
    timeout=0
    ladder timeout "$grace"
  fi
  [ -z "$deadline" ] || climb
}

# Ends the job for the reason $1, with $2 hundredths of a second until SIGKILL; the shortest time counts.
ladder() {
  why=\${why:-$1}
  [ -n "$deadline" ] && [ "$deadline" -le $((now + $2)) ] || deadline=$((now + $2))
  ticks=0
}

# Sends SIGTERM once to every member, and SIGCONT in case it is stopped; at the deadline, SIGKILL.
climb() {
  if ! find_members; then
    [ -z "$ended" ]
    return
  fi
  if [ "$now" -ge "$deadline" ]; then
    reach
    signal_members KILL
    return 0
  fi
  for pid in $members; do
    case $asked in *" $pid "*) continue ;; esac
    asked="$asked$pid "
    [ "$pid" != "$command" ] || reach
    kill -s TERM "$pid" && kill -s CONT "$pid"
    # Not before: a shell blocks signals for a moment.
    [ "$pid" != "$command" ] || ! look "$pid" || [ "$blocked" = 0 ] || survives=yes
  done 2>/dev/null
  return 0
}

# Called immediately before a signal of the ladder to the command.
reach() {
  look "$command" && [ "$state" != Z ] || return 0
  reached=yes
  [ "$handled" = 0 ] || survives=yes
}

# Records how the command ended. For a signal, a shell gets 128 plus the signal's number, which could also be an exit code.
# The kernel distinguishes the two while the command is a zombie, which its parent, the guard, only reaps on request. If the
# kernel does not show it, the number is recorded as an exit code.
record() {
  truth=$code
  echo wait >&3
  # A trap that runs meanwhile ends the read.
  until read -r reported <&5; do look "$guard" && [ "$state" != Z ] || crash; done
  exit_code=$reported signal=null
  # A command that the ladder did not reach has ended by itself. So has one that could not survive SIGTERM, and ended in
  # another way than by a signal of the ladder: an exit takes a moment, in which a signal has no effect.
  case $reached$survives$reported in yesyes* | yes143 | yes137) ;; *) why= ;; esac
  reason=\${why:-exit}
  if [ "$truth" != unknown ] && [ $((truth & 127)) -gt 0 ] && [ "$reported" -eq $((128 + (truth & 127))) ]; then
    exit_code=null signal=$((truth & 127)) reason=\${why:-signal}
  fi
  left=false lost=false ended=yes
  # Background processes of the command continue without it; its session's number is not reused as long as they run.
  find_members && left=true
  firmly head -c 4096 /dev/zero 2>/dev/null >"$directory/probe" || lost=true
  firmly rm -f "$directory/probe"
  wall_clock
  printf '{"exitCode":%s,"signal":%s,"reason":"%s","endedAt":"%s","durationMs":%s,"leftBehind":%s,"outputLost":%s}' \\
    "$exit_code" "$signal" "$reason" "$date" $(((now - begun) * 10)) "$left" "$lost" 1<>"$directory/end.json.tmp"
  echo "$reported" 1<>"$directory/exit.tmp"
  # Into the space reserved at the start, then renamed: neither needs a free block.
  firmly mv "$directory/end.json.tmp" "$directory/end.json"
  firmly mv "$directory/exit.tmp" "$directory/exit"
}

# Kills everything, without a record.
crash() {
  while find_members; do signal_members KILL && sleep 0.02; done
  exit 1
}

# Waits a little: briefly while a job is young or being ended, longer when it is old. The guard's pipe is not kept open.
nap() {
  exec 3>&- 5<&- 9<&-
  if [ "$ticks" -lt 20 ]; then exec sleep 0.02; fi
  if [ "$ticks" -lt 60 ]; then exec sleep 0.1; fi
  exec sleep 0.5
}
`
