/**
 * The part of the supervisor script that starts a job: the call, and the supervisor until the job is visible.
 */
export const START = `# Starting a job: the call that requests it, the supervisor, its guard, and the command.
#
#   call ── supervisor            setsid; pid and pgid of meta.json; watches, records, ends the job
#             └─ guard            the command's parent; ends everything when the supervisor is killed
#                  └─ command     its own session; begins when the job is visible

# Assembles a job in @new-<mark> and waits until its supervisor has published it. Once the supervisor is running, nothing
# depends on this call any more.
start() {
  id=$1 mark=$2 payload=$3 words_size=$4 command_size=$5 stdin_size=$6 meta_size=$7 timeout=$8 grace=$9
  shift 9
  files=$1
  stage=$root/@new-$mark directory=$root/@new-$mark/$id
  for tool in base64 cat date dd env find flock grep head mkfifo mv readlink rm sed setsid sleep tail tr wc; do
    command -v "$tool" >/dev/null || { echo "refused SPAWN_FAILED missing-tool $tool" && return; }
  done
  [ ! -e "$root/$id" ] || { echo 'refused JOB_ALREADY_EXISTS' && return; }
  mkdir "$stage" "$directory" 2>/dev/null || { echo 'refused STATE_DIR_UNAVAILABLE' && return; }
  if [ "$payload" = uploaded ]; then
    mv "$root/@part-$mark" "$stage/payload"
  else
    printf %s "$payload" | base64 -d >"$stage/payload"
  fi 2>/dev/null
  echo "$mask" >"$stage/umask"
  size=$(wc -c 2>/dev/null <"$stage/payload")
  place=1
  if [ "\${size:-0}" -ne $((words_size + command_size + stdin_size + meta_size)) ] ||
    ! take "$words_size" "$stage/words" || ! take "$command_size" "$stage/command" ||
    ! take "$stdin_size" "$directory/stdin" || ! take "$meta_size" "$stage/meta"; then
    rm -rf "$stage"
    echo 'refused STATE_DIR_UNAVAILABLE no-room'
    return
  fi
  # A job started by another job is not a part of it.
  unset NACRE_JOB
  setsid sh "$self" "$root" supervise "$stage" "$id" "$timeout" "$grace" "$files" </dev/null >/dev/null 2>&1 &
  keeper=$!
  while [ -d "$stage" ] && [ ! -f "$stage/refused" ] && look "$keeper" && [ "$state" != Z ]; do sleep 0.02; done
  if [ -f "$stage/refused" ]; then
    cat "$stage/refused"
  elif read_meta "$root/$id" && [ "$(number pid)" = "$keeper" ]; then
    # Even if the supervisor was killed a moment later: this job is visible, and has crashed.
    echo "started $keeper"
  else
    echo 'refused SPAWN_FAILED killed'
  fi
  rm -rf "$stage"
}

# Writes the next $1 bytes of the payload to file $2; no file for 0.
take() {
  [ "$1" -eq 0 ] && return
  tail -c "+$place" "$stage/payload" | head -c "$1" 2>/dev/null >"$2"
  place=$((place + $1))
  [ "$(wc -c <"$2")" -eq "$1" ]
}

# The supervisor.
supervise() {
  stage=$1 id=$2 timeout=$3 grace=$4 files=$5 directory=$1/$2
  mark=\${stage##*@new-} keeper=$$ cancelled='' ended='' deadline='' why='' reached='' survives='' asked=' ' ticks=0
  # SIGTERM is a cancel, and so is the signal that a native reader sends. Other signals must not end the supervisor. They
  # must not be ignored either, since the command would inherit that.
  trap 'cancelled=yes' TERM 36
  trap : HUP INT QUIT PIPE USR1 USR2 ALRM
  : >"$directory/output.log"
  # Space for the two records: newlines are no part of a number and none of JSON.
  make_room 4 "$directory/exit.tmp" && make_room 512 "$directory/end.json.tmp" || refuse STATE_DIR_UNAVAILABLE no-room
  # Held by this process and its guard, so until nothing of the job is left, and by nothing that they start.
  exec 9<"$directory" && flock -n 9 || refuse STATE_DIR_UNAVAILABLE no-room
  # The guard detects the end of this process by end of file on the first pipe, so no other process may hold that pipe for
  # long. The guard replies on the second. The command waits at the third.
  mkfifo "$stage/life" "$stage/word" "$stage/gate" || refuse STATE_DIR_UNAVAILABLE no-room
  exec 3<>"$stage/life" 4<>"$stage/word" 5<"$stage/word" 7<>"$stage/gate" 8<"$stage/gate"
  setsid sh "$self" "$root" guard "$stage" "$id" "$files" 5<&- 7>&- &
  guard=$!
  exec 4>&- 8<&-
  read -r word command rest <&5 || word=refused command=SPAWN_FAILED rest=killed
  [ "$word" = ready ] || refuse "$command" "$rest"
  publish || { [ -e "$root/$id" ] && refuse JOB_ALREADY_EXISTS; refuse STATE_DIR_UNAVAILABLE no-room; }
  directory=$root/$id
  # Between two lines, a shell reaps ended children, which the guard must not do (see record): it must block in its read
  # before the command can end.
  until ! look "$guard" || [ "$state" = S ]; do sleep 0.01; done
  clock && begun=$now
  echo go >&7
  exec 7>&-
  rm -rf "$stage"
  while watch; do
    nap & wait $!
  done
  flock -u 9
  echo bye >&3
}

# Fills file $2 with $1 newlines.
make_room() {
  head -c "$1" /dev/zero | tr '\\0' '\\n' >"$2" && [ "$(wc -c <"$2")" -eq "$1" ]
}

# Reports why there is no job, and exits. The guard and the waiting command then exit too.
refuse() {
  echo "refused $*" >"$stage/refused.tmp" && mv "$stage/refused.tmp" "$stage/refused"
  exit 1
}

# Makes the job visible, completely and in one step: moving a directory is one rename(2), which fails if the id exists. The
# command waits.
publish() {
  look "$command" && command_started=$started && look "$$" && wall_clock || return 1
  {
    printf '{"pgid":%s,"pid":%s,"startTime":%s,"bootId":"%s","pidNamespace":"%s"' \\
      "$$" "$$" "$started" "$boot" "$(readlink /proc/self/ns/pid)" &&
      printf ',"commandPid":%s,"commandStartTime":%s,"cgroup":null,"createdAt":"%s","cwd":"%s"' \\
        "$command" "$command_started" "$date" "$(cat "$stage/cwd")" &&
      cat "$stage/meta"
  } >"$directory/meta.json.tmp" 2>/dev/null || return 1
  mv "$directory/meta.json.tmp" "$directory/meta.json" && mv "$directory" "$root/" 2>/dev/null
}
`
