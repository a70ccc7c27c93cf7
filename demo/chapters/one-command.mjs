/** Options for one command: environment, directory, arguments without a shell, input, live output. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'

export async function oneCommand(story, sandbox, directory) {
  story.title('For one command only')
  await environment(story, sandbox)
  await words(story, sandbox)
  await input(story, sandbox)
  await liveOutput(story, sandbox, directory)
}

async function environment(story, sandbox) {
  story.say(`with env { GREETING: "it's \\"quoted\\"" } and cwd '/':`)
  const options = { env: { GREETING: `it's "quoted"` }, cwd: '/' }
  const { stdout } = await story.run(sandbox, 'echo "$GREETING in $PWD"', options)
  story.check('the command sees both', stdout === `it's "quoted" in /\n`, stdout)
  const after = await sandbox.exec('echo "[$GREETING] $(basename "$PWD")"')
  story.check('the next one sees neither', after.stdout === '[] adder\n', after.stdout)
}

async function words(story, sandbox) {
  const words = ['printf', '%s|', '$HOME', '* ; rm -rf /', "it's"]
  const { stdout } = await story.run(sandbox, words)
  story.check('a list of words is never parsed by a shell', stdout === "$HOME|* ; rm -rf /|it's|", stdout)
}

async function input(story, sandbox) {
  const sorted = await story.run(sandbox, 'sort -n | head -1', { input: '30\n4\n100\n' })
  story.check('text as standard input', sorted.stdout === '4\n', sorted.stdout)
  async function* pieces() {
    for (const piece of ['streamed ', 'in ', 'pieces']) yield piece
  }
  const streamed = await story.run(sandbox, 'wc -w', { input: pieces() })
  story.check('and a stream', streamed.stdout.trim() === '3', streamed.stdout)
}

/** The command waits for a file that is made only when its output has been seen: it can not end otherwise. */
async function liveOutput(story, sandbox, directory) {
  const seen = []
  const go = path.join(directory, 'adder', 'go')
  const onOutput = (stream, text) => {
    seen.push(`${stream}: ${text}`)
    if (text.includes('waiting')) writeFileSync(go, '')
  }
  const command = 'echo waiting; until [[ -e go ]]; do sleep 0.01; done; rm go; echo "went on" >&2'
  const result = await story.run(sandbox, command, { onOutput, timeout: 5000 })
  story.check('output is seen while the command runs', seen.length === 2 && result.success, seen)
}
