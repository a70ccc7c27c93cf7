/** What a container has of this machine besides its project, checked. */
import { path } from '../base/builtin.js'
import { invalidOption, SandboxError } from '../base/errors.js'
import type { EngineMount } from '../calls/engine.js'
import { INSIDE } from './enter.js'
import { isBelow, isWithin, type Project, realPath, refuseWide } from './project.js'

/** A directory or file of this machine in a container. */
export interface Place {
  /** The option that gives it. */
  name: string
  /** Its real path. */
  source: string
  readOnly: boolean
}

/** A container has files of its own there: nacre's, its users, its devices. */
const OWN = [INSIDE, '/var/lib/nacre', '/etc/passwd', '/dev/null', '/proc', '/sys']

/** The directories of the project, and the mounts that are not a part of it. Throws for mounts that cannot be. */
export function readPlaces(cwd: string, project: Project, mounts: EngineMount[] = []): Place[] {
  const places = project.map((source): Place => ({ name: 'cwd', source, readOnly: false }))
  for (const { source } of places) refuseOwn(source, 'cwd')
  for (const [at, { source: given, readOnly = false }] of mounts.entries()) {
    const name = `mounts[${at}].source`
    const source = realPath(path.resolve(cwd, given), name, 'MOUNT_MISSING')
    refuseWide(source, name)
    refuseOwn(source, name)
    const same = places.find((place) => place.source === source)
    if (same !== undefined && same.readOnly !== readOnly) {
      const rights = ['to read only', 'to write']
      const [here, there] = readOnly ? rights : rights.reverse()
      const message = `${name} is ${source}, ${here}, which ${same.name} gives the container ${there}: leave one of them out`
      throw invalidOption(message)
    }
    const isPart = !readOnly && project.some((directory) => isBelow(source, directory))
    if (same === undefined && !isPart) places.push({ name, source, readOnly })
  }
  return places
}

function refuseOwn(source: string, name: string): void {
  const own = OWN.find((file) => isBelow(file, source) || isBelow(source, file))
  if (own === undefined) return
  const message = `${name} is ${source}, and a container has its own ${own}: give another directory`
  throw invalidOption(message)
}

/** Throws PROJECT_TOO_WIDE if commands could change the files of nacre, which root of the container runs. */
export function refuseRuntime(runtime: string, places: Place[]): void {
  const wide = places.find(
    ({ source, readOnly }) => !readOnly && (isWithin(runtime, source) || isWithin(source, runtime)),
  )
  if (wide === undefined) return
  const { name, source } = wide
  const remedy = name === 'cwd' ? 'set XDG_CACHE_HOME to another directory' : 'make it readOnly'
  throw new SandboxError(
    'PROJECT_TOO_WIDE',
    `${name} is ${source}: there, commands could change the files of nacre (${runtime}), which root of the container ` +
      `runs: give another directory, or ${remedy}`,
  )
}
