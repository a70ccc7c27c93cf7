/** What commands in a container could have written: nacre runs none of it on this machine, and mounts none of it as its own. */
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { EngineOptions } from 'nacre/engine'
import { describe, expect, it } from 'vitest'
import { type StandIn, withStandIn } from '../helpers/stand-in-engine.js'
import { rejectionOf } from '../helpers/thrown.js'

/** Puts programs into a directory that leave a file beside the state when they run. */
function plant(directory: string, { state }: StandIn, names = ['docker', 'podman', 'git', 'npm']): string {
  mkdirSync(directory, { recursive: true })
  for (const name of names)
    writeFileSync(path.join(directory, name), `#!/bin/sh\ntouch '${state}/planted'\n`, { mode: 0o755 })
  return directory
}

/** Puts directories in front of PATH, until the stand-ins end. */
function addToPath(...directories: string[]): void {
  process.env.PATH = [...directories, process.env.PATH].join(path.delimiter)
}

describe('a program', () => {
  it.each<[string, (engine: StandIn) => string[]]>([
    ['of node_modules/.bin', (engine) => [plant(`${engine.project}/../node_modules/.bin`, engine)]],
    ['of the project', (engine) => [plant(`${engine.project}/bin`, engine)]],
    [
      'of the project, through a link to its directory',
      (engine) => {
        const link = path.join(path.dirname(engine.project), 'link')
        symlinkSync(plant(`${engine.project}/bin`, engine), link)
        return [link]
      },
    ],
    [
      'of the project, through a link to itself',
      (engine) => {
        const directory = path.join(path.dirname(engine.project), 'links')
        mkdirSync(directory)
        for (const name of ['docker', 'git'])
          symlinkSync(path.join(plant(`${engine.project}/bin`, engine), name), path.join(directory, name))
        return [directory]
      },
    ],
    ['of a mount', (engine) => [plant(`${engine.project}/../other/bin`, engine)]],
  ])('%s does not run in the place of an engine or of git', (_, prepare) =>
    withStandIn(['docker'], async (engine) => {
      const { open, on, project, state } = engine
      const other = path.join(path.dirname(project), 'other')
      mkdirSync(other)
      on('info', `echo "$PATH" >"$state/path"`)
      const directories = prepare(engine)
      addToPath(...directories)
      const sandbox = await open({ mounts: [{ source: other }] })
      expect((await sandbox.exec('echo there')).stdout).toBe('there\n')
      expect(existsSync(path.join(state, 'planted'))).toBe(false)
      // An engine finds its helpers for credentials there.
      const given = readFileSync(path.join(state, 'path'), 'utf8').trim().split(path.delimiter)
      if (!directories.some((directory) => directory.endsWith('links')))
        for (const directory of directories) expect(given).not.toContain(directory)
    }),
  )

  it('of a mount that commands cannot write is used', () =>
    withStandIn(['docker'], async ({ open, project, state, calls }) => {
      const bin = path.dirname(state)
      await open({ mounts: [{ source: bin, readOnly: true }], cwd: project })
      expect(calls().some((line) => line.startsWith('docker run'))).toBe(true)
    }))
})

describe('the files of nacre', () => {
  const cases: Array<[string, (place: string) => EngineOptions, RegExp]> = [
    ['the project', (place) => ({ cwd: place }), /^cwd is .*XDG_CACHE_HOME/],
    ['a mount', (place) => ({ mounts: [{ source: place }] }), /^mounts\[0\]\.source is .*readOnly/],
    [
      'a mount of a part of them',
      (place) => ({ mounts: [{ source: '/usr/share' }, { source: `${place}/cache/nacre/runtime` }] }),
      /^mounts\[1\]\.source is .*readOnly/,
    ],
  ]
  it.each(cases)('are never in %s that commands can write', (_, optionsOf, message) =>
    withStandIn(['docker'], async ({ open, project, calls }) => {
      const place = path.join(path.dirname(project), 'place')
      process.env.XDG_CACHE_HOME = path.join(place, 'cache')
      mkdirSync(path.join(place, 'cache/nacre/runtime'), { recursive: true })
      const error = (await rejectionOf(open(optionsOf(place)))) as Error
      expect(error).toMatchObject({ code: 'PROJECT_TOO_WIDE' })
      expect(error.message).toMatch(message)
      expect(calls().filter((line) => line.startsWith('docker run'))).toEqual([])
    }),
  )

  it('may be in a mount that commands can only read', () =>
    withStandIn(['docker'], async ({ open }) => {
      const cache = process.env.XDG_CACHE_HOME ?? ''
      mkdirSync(cache)
      const sandbox = await open({ mounts: [{ source: cache, readOnly: true }] })
      expect((await sandbox.exec('echo there')).stdout).toBe('there\n')
    }))
})
