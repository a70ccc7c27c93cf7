/** The command `deploy`: a function of this program, outside of the sandbox. */
import { ask } from './person.js'

const TARGETS = ['staging', 'production']
const MOST_BYTES = 10_000_000

/** Deploys the archive on standard input, if a person confirms it. The caller may be anything: check what it sends. */
export async function deploy({ args, stdin, stdout, stderr, signal }) {
  const [target] = args
  if (args.length !== 1 || !TARGETS.includes(target)) {
    await stderr.write(`usage: deploy ${TARGETS.join('|')} < archive\n`)
    return 2
  }
  const pieces = []
  let size = 0
  for await (const piece of stdin) {
    size += piece.length
    if (size > MOST_BYTES) throw new Error(`the archive has more than ${MOST_BYTES} bytes`)
    pieces.push(piece)
  }
  if (!(await ask(`Deploy to ${target}?`, signal))) {
    await stderr.write('deploy: a person has refused it\n')
    return 1
  }
  await upload(target, Buffer.concat(pieces))
  await stdout.write(`deployed to ${target}\n`)
  return 0
}

/** Replace it with your own deployment, and its key. */
async function upload(_target, archive) {
  const isArchive = archive[0] === 0x1f && archive[1] === 0x8b
  if (!isArchive) throw new Error('this is no archive')
}
