/**
 * The part of the supervisor script that inspects jobs and ends them: one function per call.
 */

/** Maximum bytes of `meta.json` and of a record, the same as on the native side. */
const MOST_META_BYTES = 8 * 1024 * 1024
const MOST_RECORD_BYTES = 4096

export const CALLS = `# The other calls: each reads the job's directory and keeps no state.

# Reports job $1, with all of meta.json if $2 is whole: the record, then the live processes, then the record again. The
# caller decides what that means. So a job that ends meanwhile does not count as killed: its record exists before its
# processes exit.
report_job() {
  directory=$root/$1
  if [ ! -d "$directory" ] || [ -L "$directory" ]; then
    echo 'refused JOB_NOT_FOUND'
    return 1
  fi
  echo "job $1"
  report_record first
  recorded=$?
  read_meta "$directory"
  if [ "$2" = whole ]; then echo meta $(beginning ${MOST_META_BYTES} "$directory/meta.json" | base64); elif [ -n "$meta" ]; then echo meta; fi
  find_life
  echo "life $life"
  [ "$recorded" = 0 ] || report_record second
  return 0
}

# The record, under the name $1. An exit file without a number is still being written, by a program that does not rename.
report_record() {
  text=$(beginning ${MOST_RECORD_BYTES} "$directory/exit")
  case $text in
  '' | *[!0-9]*) false ;;
  *) echo "$1 $text" $(beginning ${MOST_RECORD_BYTES} "$directory/end.json" | base64) ;;
  esac
}

# Prints at most the first $1 bytes of file $2.
beginning() {
  is_plain "$2" && head -c "$1" "$2" 2>/dev/null
}

# True for a regular file: a FIFO would block, and a link leads elsewhere.
is_plain() {
  [ -f "$1" ] && [ ! -L "$1" ]
}

# Sets meta to the beginning of meta.json in directory $1, which contains all numbers; the rest may be a long command, and
# shells search long text slowly. Fails if there is none.
read_meta() {
  meta=$(beginning 16384 "$1/meta.json")
  [ -n "$meta" ]
}

# Prints the number, or with text the plain string, of a field of meta. No string can be mistaken for a field, since quotes
# inside strings follow a backslash.
number() {
  case $meta in *\\"$1\\":*) value=\${meta#*\\"$1\\":} ;; *) return 1 ;; esac
  value=\${value#"\${value%%[! ]*}"}
  echo "\${value%%[!0-9]*}"
}
text() {
  case $meta in *\\"$1\\":*) value=\${meta#*\\"$1\\":} ;; *) return 1 ;; esac
  value=\${value#*\\"}
  echo "\${value%%\\"*}"
}

# Sets life: alive, dead, or reboot; own: whether nacre's supervisor runs the job; and the input of find_members.
find_life() {
  own='' keeper='' command='' guard='' mark='' life=dead
  keeper=$(number pid) && began=$(number startTime) && booted=$(text bootId) && space=$(text pidNamespace)
  if [ -n "$keeper" ] && [ -n "$began" ] && [ -n "$booted" ]; then
    own=yes
    mark=$(text mark)
    if [ "$booted" != "$boot" ]; then
      life=reboot mark=
    elif [ "$space" != "$(readlink /proc/self/ns/pid)" ]; then
      own=elsewhere mark=
      find_writer && life=alive
    elif is_alive "$keeper" "$began"; then
      command=$(number commandPid)
      life=alive
    fi
    return
  fi
  # Written by another program, or damaged: it counts as alive only with evidence. The group's number may have been reused,
  # so a process of the group must have the output open.
  keeper=
  group=$(number pgid)
  if [ -z "$group" ]; then
    own=damaged
    find_writer && life=alive
  elif [ "$group" -gt 1 ] && command=$group && find_members; then
    for pid in $members; do has_output "$pid" && life=alive && return; done
    command=
  else
    command=
  fi
}

# True when any process writes the output of the job.
find_writer() {
  for process in /proc/[0-9]*; do
    has_output "\${process#/proc/}" && return
  done
  return 1
}

# Prints the status, then at most $3 bytes from $2 on. dd seeks to the block without reading the data before it.
read_output() {
  report_job "$1" || return
  if [ -e "$directory/output.log" ] && ! is_plain "$directory/output.log"; then
    echo 'refused JOB_NOT_FOUND strange-output'
    return
  fi
  echo data
  dd if="$directory/output.log" bs=65536 skip=$(($2 / 65536)) count=$(($3 / 65536 + 2)) 2>/dev/null |
    tail -c "+$(($2 % 65536 + 1))" | head -c "$3" | base64
}

# Reports all jobs. Removes leftovers of unfinished calls after a day. Their names contain a mark, 32 hexadecimal digits,
# which no job id contains by chance.
list() {
  any='[0-9a-f]' any=$any$any$any$any any=$any$any$any$any any=$any$any
  find "$root" -maxdepth 1 \\( -name "@new-$any" -o -name "@part-$any" -o -name "@gone-$any" \\) -mtime +0 \\
    -exec rm -rf {} + 2>/dev/null
  for directory in "$root"/* "$root"/.[!.]* "$root"/..?*; do
    ! is_plain "$directory/meta.json" || case \${directory##*/} in *[!A-Za-z0-9._-]*) ;; *) report_job "\${directory##*/}" whole ;; esac
  done
}

# Step $2 of ending job $1: ask, with $3 hundredths of a second until SIGKILL, or - for the job's own; kill; or just look.
# Waits up to a second, then reports whether any process is left.
cancel() {
  report_job "$1" whole || return
  if [ ! -O "$directory" ]; then
    set -- "$1" "$2" "$3" $(ls -ldn "$directory")
    [ "$6" = 0 ] || { echo 'refused STATE_DIR_UNAVAILABLE not-ours' && return; }
  fi
  if [ "$life" = alive ]; then
    case $own in
    damaged) echo 'refused JOB_NOT_FOUND damaged' && return ;;
    elsewhere) echo 'refused ENGINE_ERROR elsewhere' && return ;;
    esac
  fi
  case $life$own$2 in
  aliveyesask)
    [ "$3" = - ] || { echo "$3" >"$directory/cancel.tmp" && mv "$directory/cancel.tmp" "$directory/cancel"; } 2>/dev/null
    kill -s TERM "$keeper" && kill -s CONT "$keeper"
    ;;
  aliveask) find_members && signal_members TERM && signal_members CONT ;;
  alive*kill) find_members && signal_members KILL ;;
  deadyes*) find_members && signal_members KILL ;;
  esac 2>/dev/null
  tries=0
  while [ "$tries" -lt 20 ] && is_left; do
    tries=$((tries + 1))
    sleep 0.05
  done
  is_left && echo 'left yes' || echo 'left no'
}

# True if the supervisor or any process of the job still exists.
is_left() {
  [ "$life$own" = aliveyes ] && is_alive "$keeper" "$began" && return
  [ -n "$command$mark" ] && find_members
}

# Removes job $1, renaming it to $2 first: a visible job is always complete.
remove() {
  report_job "$1" || return
  # A supervisor that has recorded the end takes a moment to exit.
  tries=0
  while [ "$life$own" = aliveyes ] && [ "$tries" -lt 20 ] && report_record now >/dev/null && ! find_members; do
    tries=$((tries + 1))
    sleep 0.05
    is_alive "$keeper" "$began" || life=dead
  done
  if [ "$life" = alive ]; then
    echo 'refused JOB_RUNNING'
    return
  fi
  [ -z "$mark" ] || ! find_members || signal_members KILL
  if mv "$directory" "$root/@gone-$2" 2>/dev/null && rm -rf "$root/@gone-$2"; then
    echo removed
  elif [ -d "$directory" ]; then
    echo 'refused STATE_DIR_UNAVAILABLE'
  fi
}
`
