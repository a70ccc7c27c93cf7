/**
 * Stand-ins for the programs of container engines: they keep the states of their containers in files, log their arguments, and
 * run the server of nacre on this machine.
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { type EngineOptions, type EngineSandbox, openSandbox } from 'nacre/engine'

const inside = path.join(path.dirname(path.dirname(__dirname)), 'dist/engine/inside.js')

const COMMON = `
state=$(dirname "$0")/state
printf '%s\\n' "$(basename "$0") $*" >>"$state/log"
kind=$1; [[ $kind =~ ^(image|system|volume)$ ]] && kind="$1 $2"
for name; do :; done
[ -e "$state/on-\${kind// /-}" ] && . "$state/on-\${kind// /-}"
# An engine does one thing with its containers after another. Meanwhile it says what it is, for which it has three seconds.
[[ $kind =~ ^(exec|info|system status)$ ]] || { exec 9>"$state/lock"; flock 9; }

# Keeps what the words of a new container say: its labels as JSON, and where its runtime is.
create() {
  local container=$1 labels= value
  shift
  (set -C; echo running >"$state/c-$container") 2>/dev/null || return 1
  while [ $# -gt 0 ]; do
    value=\${2-}
    case $1 in
      --label) labels+=",\\"\${value%%=*}\\":\\"\${value#*=}\\"" ;;
      --volume) [[ $value == *:/opt/nacre:ro ]] && echo "\${value%:/opt/nacre:ro}" >"$state/r-$container" ;;
    esac
    shift
  done
  echo "{\${labels#,}}" >"$state/l-$container"
  echo "\${id:=id-$RANDOM-$$}" >"$state/i-$container"
  echo "$id"
}
# The name of a container, from its name or its id.
resolve() {
  [ -e "$state/c-$1" ] && echo "$1" || grep -lx -- "$1" "$state"/i-* 2>/dev/null | sed 's,.*/i-,,'
}
names() { (cd "$state" && ls | sed -n 's/^c-//p'); }
forget() { rm -rf "$state/"{c,i,l,r,s}"-$1"; }

# The words after the name of the container. PID 1 of this machine is not that of a container.
enter() {
  local container=$1
  shift
  [ "$(cat "$state/c-$container" 2>/dev/null)" = running ] || { echo "Error: no such container: $container" >&2; exit 1; }
  [[ $2 == --set-up ]] && exec "$(cat "$state/r-$container")/nacre-supervisor" --set-up "$state/s-$container" "$4"
  exec "$NODE" ${inside}
}
`

const DOCKER_SCRIPT = `${COMMON}
case $kind in
  info) cat "$state/info-$(basename "$0")" ;;
  inspect)
    # As Podman says for any other form.
    [[ $5 == *'{{.Id}}'* ]] || { echo "Error: can't evaluate field Id" >&2; exit 125; }
    shift 5
    missing=0
    for word; do
      name=$(resolve "$word")
      if [ "$name" ]; then echo "[\\"$(cat "$state/i-$name" 2>/dev/null || echo "$name")\\",\\"/$name\\",\\"$(cat "$state/c-$name")\\",$(cat "$state/l-$name")]"
      else echo "Error: no such object: $word" >&2; missing=1
      fi
    done
    exit $missing
    ;;
  ps) for name in $(names); do grep -q '"dev.nacre":"1"' "$state/l-$name" && cat "$state/i-$name"; done; exit 0 ;;
  'image inspect') uname -m ;;
  run)
    while [ "$1" != --name ]; do shift; done
    create "$2" "$@" || { echo "Error: the name $2 is already in use" >&2; exit 125; }
    ;;
  start) echo running >"$state/c-$name" ;;
  stop) echo exited >"$state/c-$(resolve "$name")" ;;
  rm)
    name=$(resolve "$name")
    [ "$name" ] || { echo "Error: no such container" >&2; exit 1; }
    [[ $* == *--force* || $(cat "$state/c-$name") != running ]] || { echo "Error: $name is running" >&2; exit 1; }
    forget "$name"
    ;;
  exec)
    shift
    while [[ $1 == -* ]]; do [ "$1" = --interactive ] || shift; shift; done
    enter "$@"
    ;;
esac
`

/** The options in the command reference of Apple's container 1.0: first those without a value. */
const APPLE: Record<string, [string, string]> = {
  run: [
    '-i --interactive -t --tty -d --detach --init --no-dns --read-only --rm --remove --rosetta --ssh --virtualization --debug',
    `-e --env --env-file --gid -u --user --uid --ulimit -w --workdir --cwd -c --cpus -m --memory -a --arch --cap-add --cap-drop
     --cidfile --dns --dns-domain --dns-option --dns-search --entrypoint -k --kernel -l --label --mount --name --network --os
     -p --publish --platform --publish-socket --runtime --shm-size --tmpfs -v --volume --scheme --progress`,
  ],
  exec: [
    '-d --detach -i --interactive -t --tty --debug',
    '-e --env --env-file --gid -u --user --uid --ulimit -w --workdir --cwd',
  ],
  inspect: ['--debug', ''],
  start: ['-a --attach -i --interactive --debug', ''],
  stop: ['-a --all --debug', '-s --signal -t --time'],
  delete: ['-a --all -f --force --debug', ''],
  list: ['-a --all -q --quiet --debug', '--format'],
  'image inspect': ['--debug', ''],
  'image pull': ['--debug', '--scheme --progress -a --arch --os --platform'],
  'volume list': ['-q --quiet --debug', '--format'],
  'volume delete': ['-a --all --debug', ''],
  'system status': ['--debug', '-p --prefix --format'],
}

const APPLE_SCRIPT = `${COMMON}
case $kind in
${Object.entries(APPLE)
  .map(
    ([kind, [alone, valued]]) =>
      `  '${kind}') alone=' ${alone} ' valued=' ${valued.replace(/\s+/g, ' ')} ' ;;`,
  )
  .join('\n')}
  *) echo "Error: unexpected argument '$kind'" >&2; exit 64 ;;
esac
all=("$@")
shift $(wc -w <<<"$kind")
while [[ \${1-} == -* ]]; do
  if [[ $valued == *" $1 "* ]]; then shift
  elif [[ $alone != *" $1 "* ]]; then echo "Error: Unknown option '$1'" >&2; exit 64
  fi
  shift
done

described() {
  [ -e "$state/c-$1" ] || return
  echo "{\\"id\\":\\"$1\\",\\"status\\":{\\"state\\":\\"$(cat "$state/c-$1")\\"},\\"configuration\\":{\\"id\\":\\"$1\\",\\"labels\\":$(cat "$state/l-$1")}}"
}
case $kind in
  'system status') cat "$state/info-container" ;;
  inspect) for name; do described "$name"; done | paste -sd, | sed 's/.*/[&]/' ;;
  list) names ;;
  'image inspect') echo "[{\\"variants\\":[{\\"platform\\":{\\"os\\":\\"linux\\",\\"architecture\\":\\"$(uname -m)\\"}}]}]" ;;
  run)
    set -- "\${all[@]}"
    while [ "$1" != --name ]; do shift; done
    id=$2
    create "$2" "$@" || { echo "Error: container with id $2 already exists" >&2; exit 1; }
    for word; do [[ $word =~ ^(nacre-.*-own-[0-9]+): ]] && : >"$state/vol-\${BASH_REMATCH[1]}"; done; exit 0
    ;;
  start) echo running >"$state/c-$name" ;;
  stop) echo stopped >"$state/c-$name" ;;
  delete)
    [[ \${all[*]} == *--force* || $(cat "$state/c-$name") != running ]] || { echo "Error: $name is running" >&2; exit 1; }
    forget "$name"
    ;;
  'volume list') (cd "$state" && ls | sed -n 's/^vol-//p') ;;
  'volume delete') for name; do rm "$state/vol-$name"; done ;;
  exec) enter "$@" ;;
esac
`

type Name = 'docker' | 'podman' | 'container'

export interface StandIn {
  /** Opens a sandbox in a container of it. */
  open(options?: EngineOptions): Promise<EngineSandbox>
  /** What it was called with. */
  calls(): string[]
  /** Runs this script for a call like 'exec' or 'image inspect', before or instead of what it does. */
  on(call: string, script: string): void
  /** Sets what an engine answers about itself. */
  answers(engine: Name, answer: string): void
  project: string
  state: string
}

export const DOCKER = JSON.stringify({
  ServerVersion: '28.1.0',
  OSType: 'linux',
  Architecture: process.arch === 'x64' ? 'x86_64' : 'aarch64',
  SecurityOptions: ['name=seccomp,profile=builtin'],
  Runtimes: { runc: { path: 'runc' }, runsc: { path: '/usr/bin/runsc' } },
})
export const PODMAN = JSON.stringify({
  host: { arch: process.arch === 'x64' ? 'amd64' : 'arm64', os: 'linux', security: { rootless: true } },
  version: { Version: '5.1.0' },
})

const CONTAINER = JSON.stringify({
  status: 'running',
  apiServerVersion: 'container-apiserver version 1.1.0 (build: release, commit: 5973b9c)',
})

/** Runs a test with stand-ins for these engines, which are all that PATH and the places of installers have. */
export async function withStandIn(engines: Name[], test: (engine: StandIn) => Promise<void>): Promise<void> {
  const place = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'nacre-engine-')))
  const bin = path.join(place, 'bin')
  const state = path.join(bin, 'state')
  const project = path.join(place, 'my project')
  for (const directory of [state, project, path.join(place, 'home')])
    mkdirSync(directory, { recursive: true })
  for (const name of engines) {
    const script = name === 'container' ? APPLE_SCRIPT : DOCKER_SCRIPT
    writeFileSync(path.join(bin, name), `#!/usr/bin/env bash\n${script}`)
    chmodSync(path.join(bin, name), 0o755)
    writeFileSync(
      path.join(state, `info-${name}`),
      { docker: DOCKER, podman: PODMAN, container: CONTAINER }[name],
    )
  }
  const before = {
    PATH: process.env.PATH,
    XDG_CACHE_HOME: process.env.XDG_CACHE_HOME,
    NODE: process.env.NODE,
  }
  Object.assign(process.env, {
    PATH: `${bin}${path.delimiter}/usr/bin:/bin`,
    XDG_CACHE_HOME: path.join(place, 'cache'),
    NODE: process.execPath,
  })
  const opened: EngineSandbox[] = []
  try {
    await test({
      project,
      state,
      calls: () =>
        existsSync(path.join(state, 'log'))
          ? readFileSync(path.join(state, 'log'), 'utf8').trim().split('\n')
          : [],
      on: (call, script) => writeFileSync(path.join(state, `on-${call.replaceAll(' ', '-')}`), script),
      answers: (engine, answer) => writeFileSync(path.join(state, `info-${engine}`), answer),
      async open(options) {
        const sandbox = await openSandbox({
          where: 'container',
          engine: engines[0] ?? 'auto',
          cwd: project,
          ...options,
        })
        opened.push(sandbox)
        return sandbox
      },
    })
  } finally {
    await Promise.all(opened.map((sandbox) => sandbox.destroy()))
    for (const [name, value] of Object.entries(before))
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    rmSync(place, { recursive: true, force: true })
  }
}
