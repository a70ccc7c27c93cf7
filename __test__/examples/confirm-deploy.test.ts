/** examples/confirm-deploy, run to its end, with the person played. */
import { expect, it } from 'vitest'
import { openExample } from '../helpers/example.js'

it('deploys what a person confirms, and nothing else', async () => {
  const example = await openExample('confirm-deploy')
  try {
    expect(await example.run('main.js', '--play')).toEqual({
      exitCode: 0,
      stderr: '',
      stdout: `$ mkdir site && echo "<h1>Hello</h1>" > site/index.html
$ tar cz site | deploy staging
Deploy to staging? yes
deployed to staging
$ tar cz site | deploy production || echo "I will ask again tomorrow"
Deploy to production? no
deploy: a person has refused it
I will ask again tomorrow
$ tar cz site | deploy moon
usage: deploy staging|production < archive
[exit code 2]
`,
    })
  } finally {
    example.remove()
  }
}, 60_000)
