/**
 * Bundles the page of the console into `packages/console/dist/page`: index.html, and a script and a style sheet whose names
 * have a hash of their content, so that browsers can keep them.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { rolldown } from 'rolldown'

/** After the TypeScript of the packages has been compiled. */
export async function bundlePage(root) {
  const source = path.join(root, 'packages/console/page')
  const target = path.join(root, 'packages/console/dist/page')
  rmSync(target, { recursive: true, force: true })
  mkdirSync(target, { recursive: true })
  const require = createRequire(path.join(source, 'main.ts'))
  const style = [require.resolve('@xterm/xterm/css/xterm.css'), path.join(source, 'style.css')]
    .map((file) => readFileSync(file, 'utf8'))
    .join('')
  const names = { SCRIPT: put('app', 'js', await bundle(source)), STYLE: put('app', 'css', style) }
  const logo = readFileSync(path.join(root, 'docs/public/logo.svg')).toString('base64')
  const document = readFileSync(path.join(source, 'index.html'), 'utf8')
  writeFileSync(
    path.join(target, 'index.html'),
    document
      .replace(/SCRIPT|STYLE/g, (word) => `console/${names[word]}`)
      .replace('LOGO', `data:image/svg+xml;base64,${logo}`),
  )

  function put(name, extension, content) {
    const hash = createHash('sha256').update(content).digest('hex').slice(0, 12)
    const file = `${name}-${hash}.${extension}`
    writeFileSync(path.join(target, file), content)
    return file
  }
}

async function bundle(source) {
  const build = await rolldown({
    input: path.join(source, 'main.ts'),
    platform: 'browser',
    tsconfig: false,
    transform: { target: 'es2022' },
    onwarn: (warning) => {
      throw new Error(warning.message)
    },
  })
  const { output } = await build.generate({
    format: 'esm',
    codeSplitting: false,
    minify: true,
    comments: false,
  })
  await build.close()
  return output[0].code
}
