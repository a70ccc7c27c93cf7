/**
 * The part of the supervisor script that inspects jobs and ends them: one function per call.
 */

/** Maximum bytes of `meta.json` and of a record, the same as on the native side. */
const MOST_META_BYTES = 8 * 1024 * 1024
const MOST_RECORD_BYTES = 4096

export const CALLS = `# The other calls: each enters the job's directory once, reads it by relative paths and keeps no state. So it never reaches
# a later job with the same id. A removal renames the directory first: what a call has read belongs to a complete job if
# the directory is still in its place afterwards.

# Reports job $1, with all of meta.json if $2 is whole: the record, then the live processes, then the record again. The
# caller decides what that means. So a job that ends meanwhile does not count as killed: its record exists before its
# processes exit.
report_job() {
  directory=$root/$1
  if [ -L "$directory" ] || ! cd -P "$directory"; then
    echo 'refused JOB_NOT_FOUND'
    return 1
  fi
  exec 9<.
  echo "job $1"
  report_record first
  recorded=$?
  read_meta .
  if [ "$2" = whole ]; then echo meta $(beginning ${MOST_META_BYTES} meta.json | base64); elif [ -n "$meta" ]; then echo meta; fi
  find_life
  echo "life $life"
  [ "$recorded" = 0 ] || report_record second
  is_in_place
}

# Refuses a job that has been removed meanwhile.
is_in_place() {
  [ . -ef "$directory" ] || { echo 'refused JOB_NOT_FOUND' && return 1; }
}

# The record, under the name $1. An exit file without a number is still being written, by a program that does not rename.
report_record() {
  text=$(beginning ${MOST_RECORD_BYTES} exit)
  case $text in
  '' | *[!0-9]*) false ;;
  *) echo "$1 $text" $(beginning ${MOST_RECORD_BYTES} end.json | base64) ;;
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

# True while the supervisor of the job or its guard runs: one of them holds the lock of the directory. Only a machine
# without flock(1) has no such jobs. If the lock cannot be checked, nothing is known, and the reply stays incomplete.
is_held() {
  flock -n -s 9
  case $? in
  0) ! flock -u 9 ;;
  127) false ;;
  1) ;;
  *) exit 1 ;;
  esac
}

# Sets life: alive, dead, or reboot; own: whether nacre's supervisor runs the job; and the input of find_members. A job is
# also alive while the guard of a killed supervisor ends what is left.
find_life() {
  own='' keeper='' command='' guard='' mark='' life=dead
  keeper=$(number pid) && began=$(number startTime) && booted=$(text bootId) && space=$(text pidNamespace)
  if [ -n "$keeper" ] && [ -n "$began" ] && [ -n "$booted" ]; then
    own=yes
    mark=$(text mark)
    if [ "$booted" != "$boot" ]; then
      life=reboot mark=
      return
    fi
    ! is_held || life=alive
    if [ "$space" != "$(readlink /proc/self/ns/pid)" ]; then
      own=elsewhere mark=
    elif [ "$keeper" -gt 1 ] && is_alive "$keeper" "$began"; then
      command=$(number commandPid)
      # Init, and what the kernel has started, belong to no job.
      [ "\${command:-0}" -gt 1 ] || command=
    else
      keeper=
    fi
    return
  fi
  # Written by another program, or damaged: it counts as alive only with evidence. The group's number may have been reused,
  # so a process of the group must have the output open. That is no proof, so such processes are never signalled.
  keeper=
  group=$(number pgid)
  if [ -z "$group" ]; then
    own=damaged
    ! is_held || life=alive
  elif [ "$group" -gt 1 ] && command=$group && find_members; then
    for pid in $members; do has_output "$pid" && life=alive && break; done
  fi
  command=
}

# Prints the status, then at most $3 bytes from $2 on. dd seeks to the block without reading the data before it.
read_output() {
  report_job "$1" || return
  if [ -e output.log ] && ! is_plain output.log; then
    echo 'refused JOB_NOT_FOUND strange-output'
    return
  fi
  echo data
  dd if=output.log bs=65536 skip=$(($2 / 65536)) count=$(($3 / 65536 + 2)) 2>/dev/null |
    tail -c "+$(($2 % 65536 + 1))" | head -c "$3" | base64
  is_in_place
}

# Reports all jobs. Removes leftovers of unfinished calls after a day. Their names contain a mark, 32 hexadecimal digits,
# which no job id contains by chance.
list() {
  any='[0-9a-f]' any=$any$any$any$any any=$any$any$any$any any=$any$any
  find "$root" -maxdepth 1 \\( -name "@new-$any" -o -name "@part-$any" -o -name "@gone-$any" \\) -mtime +0 \\
    -exec rm -rf {} + 2>/dev/null
  for directory in "$root"/* "$root"/.[!.]* "$root"/..?*; do
    case \${directory##*/} in *[!A-Za-z0-9._-]*) continue ;; esac
    ! is_plain "$directory/meta.json" || { report=$(report_job "\${directory##*/}" whole) && printf '%s\\n' "$report"; }
  done
}

# Step $2 of ending job $1: ask, with $3 hundredths of a second until SIGKILL, or - for the job's own; kill; or just look.
# Waits up to a second, then reports whether any process is left.
cancel() {
  report_job "$1" whole || return
  if [ ! -O . ]; then
    set -- "$1" "$2" "$3" $(ls -ldn .)
    [ "$6" = 0 ] || { echo 'refused STATE_DIR_UNAVAILABLE not-ours' && return; }
  fi
  if [ "$life" = alive ]; then
    case $own in
    damaged) echo 'refused JOB_NOT_FOUND damaged' && return ;;
    elsewhere) echo 'refused ENGINE_ERROR elsewhere' && return ;;
    '') echo 'refused JOB_RUNNING foreign' && return ;;
    esac
  fi
  case $life$own$2 in
  aliveyesask)
    [ "$3" = - ] || { rm -f cancel.tmp && echo "$3" >cancel.tmp && mv cancel.tmp cancel; } 2>/dev/null
    is_alive "$keeper" "$began" && kill -s TERM "$keeper" && kill -s CONT "$keeper"
    ;;
  aliveyeskill | deadyes*) find_members && signal_members KILL ;;
  esac 2>/dev/null
  tries=0
  while [ "$tries" -lt 20 ] && is_left; do
    tries=$((tries + 1))
    sleep 0.05
  done
  is_left && echo 'left yes' || echo 'left no'
}

# True if the supervisor, its guard or any process of the job still exists.
is_left() {
  [ "$own" = yes ] && is_held && return
  [ -n "$command$mark" ] && find_members
}

# Removes job $1, renaming it to $2 first: a visible job is always complete.
remove() {
  report_job "$1" || return
  # A supervisor that has recorded the end takes a moment to exit.
  tries=0
  while [ "$tries" -lt 40 ] && is_leaving; do
    tries=$((tries + 1))
    sleep 0.05
    find_life
  done
  if [ "$life" = alive ]; then
    echo 'refused JOB_RUNNING'
    return
  fi
  [ -z "$mark" ] || ! find_members || signal_members KILL
  # Removals take turns by the lock of the root: the path leads to a new job once another removal has renamed this one.
  exec 8<"$root"
  tries=0
  until flock -n 8; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { echo 'refused STATE_DIR_UNAVAILABLE' && return; }
    sleep 0.05
  done
  is_in_place || return
  mv "$directory" "$root/@gone-$2" || { echo 'refused STATE_DIR_UNAVAILABLE' && return; }
  flock -u 8
  cd / && rm -rf "$root/@gone-$2" && echo removed || echo 'refused STATE_DIR_UNAVAILABLE'
}

# True if only the supervisor or its guard still exists.
is_leaving() {
  [ "$life$own" = aliveyes ] && report_record now >/dev/null && ! find_members
}
`
