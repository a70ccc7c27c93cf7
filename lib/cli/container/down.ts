/** `nacre down`: removes the containers of a project. */
import type { Command } from 'commander'
import { absolute } from '../../base/working-directory.js'
import { withExamples } from '../examples.js'
import { note, printable, printLine } from '../terminal.js'
import { existingDirectory } from '../values.js'
import type { Finish, Verb } from '../verb.js'
import { engineOption } from './options.js'

interface Options {
  all?: true
  cwd?: string
  engine?: 'docker' | 'podman' | 'container'
}

export const addDown: Verb = (program: Command, finish) => {
  const verb = program
    .command('down')
    .description(
      'remove your containers of a project, with what runs in them and the files that only they have',
    )
    .option('--cwd <directory>', 'a directory of the project (default: the present one)', existingDirectory)
    .option('--all', 'remove the containers of all projects')
    .addOption(engineOption())
    .action((options: Options) => down(options, finish))
  withExamples(verb, [
    ['nacre down', 'removes the containers of this project'],
    ['nacre down --all', 'removes all of your containers that nacre has made'],
  ])
}

async function down({ all, cwd = '.', engine = undefined }: Options, finish: Finish): Promise<void> {
  const { projectOf, realPath } = await import('../../engine/project.js')
  const { installedEngines, notFound, withStart } = await import('../../engine/find.js')
  const { ownUser } = await import('../../engine/dialect.js')
  const { listContainers, removeContainer, stopContainer } = await import('../../engine/containers.js')
  const { SearchPath } = await import('../../engine/search-path.js')
  const project = all ? undefined : projectOf(realPath(absolute(cwd), '--cwd', 'CWD_NOT_FOUND'))[0]
  const search = SearchPath.around(cwd)
  const problems: string[] = []
  let answered = 0
  let removed = 0
  for (const { name, found, start } of installedEngines(engine ?? 'auto', undefined, search)) {
    const answer = await found
    if (typeof answer === 'string') {
      problems.push(withStart(`${name} does not answer, so its containers stay: ${answer}`, start))
      continue
    }
    answered++
    // One that stays is no reason to keep the others.
    const attempt = async (work: () => Promise<void>) => {
      try {
        await work()
      } catch (error) {
        problems.push((error as Error).message)
        finish(1)
      }
    }
    await attempt(async () => {
      for (const container of await listContainers(answer)) {
        if (container.user !== ownUser() || (project !== undefined && container.project !== project)) continue
        await attempt(async () => {
          // Programs get SIGTERM first.
          if (container.isRunning) await stopContainer(answer, container)
          await removeContainer(answer, container, true)
          removed++
          const { name: id, image, project: top } = container
          await printLine(`removed ${id} (${name}, ${printable(image)}) of ${printable(top)}`)
        })
      }
    })
  }
  if (answered === 0) throw notFound(engine ?? 'auto', problems, search)
  for (const problem of problems) note(problem)
  if (removed === 0 && problems.length === 0)
    note(
      project === undefined
        ? 'there is no container of nacre'
        : `there is no container of ${printable(project)}`,
    )
}
