/**
 * A stand-in for the program of a container engine: it keeps the states of its containers in files, logs its arguments, and
 * runs the server of nacre on this machine.
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

const SCRIPT = `
state=$(dirname "$0")/state
printf '%s\\n' "$(basename "$0") $*" >>"$state/log"
kind=$1; [ "$kind" = image ] && kind="image $2"
for name; do :; done
[ -e "$state/on-\${kind// /-}" ] && . "$state/on-\${kind// /-}"
case $kind in
  info) cat "$state/info-$(basename "$0")" ;;
  inspect) cat "$state/c-$name" 2>/dev/null || { echo "Error: no such object: $name" >&2; exit 1; } ;;
  'image inspect') echo "$(uname -m)" ;;
  run)
    while [ "$1" != --name ]; do shift; done
    (set -C; echo running >"$state/c-$2") 2>/dev/null || { echo "Error: the name $2 is already in use" >&2; exit 125; }
    ;;
  start) echo running >"$state/c-$name" ;;
  stop) echo exited >"$state/c-$name" ;;
  rm)
    [[ $2 == --force || $(cat "$state/c-$name") != running ]] || { echo "Error: $name is running" >&2; exit 1; }
    rm -f "$state/c-$name"
    ;;
  exec) exec "$NODE" ${inside} ;;
esac
`

export interface StandIn {
  /** Opens a sandbox in a container of it. */
  open(options?: EngineOptions): Promise<EngineSandbox>
  /** What it was called with. */
  calls(): string[]
  /** Runs this script for a call like 'exec' or 'image inspect', before or instead of what it does. */
  on(call: string, script: string): void
  /** Sets what an engine answers about itself. */
  answers(engine: 'docker' | 'podman', answer: string): void
  project: string
  state: string
}

export const DOCKER = JSON.stringify({
  ServerVersion: '28.1.0',
  OSType: 'linux',
  Architecture: process.arch === 'x64' ? 'x86_64' : 'aarch64',
  SecurityOptions: ['name=seccomp,profile=builtin'],
})
export const PODMAN = JSON.stringify({
  host: { arch: process.arch === 'x64' ? 'amd64' : 'arm64', os: 'linux', security: { rootless: true } },
  version: { Version: '5.1.0' },
})

/** Runs a test with stand-ins for these engines, which are all that PATH and the places of installers have. */
export async function withStandIn(
  engines: ('docker' | 'podman')[],
  test: (engine: StandIn) => Promise<void>,
): Promise<void> {
  const place = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'nacre-engine-')))
  const bin = path.join(place, 'bin')
  const state = path.join(bin, 'state')
  const project = path.join(place, 'my project')
  for (const directory of [state, project, path.join(place, 'home')])
    mkdirSync(directory, { recursive: true })
  for (const name of engines) {
    writeFileSync(path.join(bin, name), `#!/usr/bin/env bash\n${SCRIPT}`)
    chmodSync(path.join(bin, name), 0o755)
    writeFileSync(path.join(state, `info-${name}`), name === 'docker' ? DOCKER : PODMAN)
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
