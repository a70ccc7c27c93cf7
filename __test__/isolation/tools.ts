/** What the daily tools do in a project: each installs the package of a registry, builds with it and runs the result. */
import { expect } from 'vitest'
import { MODULE, PACKAGE, VALUE } from './registry.js'
import type { Programs, Tier } from './tiers.js'

export interface Tool {
  name: string
  files: Record<string, string>
  command: string
}

/** Tools whose commands print VALUE at the end. */
export function toolsWith(registry: string): Tool[] {
  const project = JSON.stringify({ name: 'project', private: true, dependencies: { [PACKAGE]: '^1.0.0' } })
  const main = `console.log(require('${PACKAGE}'))`
  const javaScript = (name: string, command: string, files: Record<string, string> = {}): Tool => ({
    name,
    files: { 'package.json': project, 'main.js': main, ...files },
    command,
  })
  const npmrc = `registry=${registry}/`
  const page = { 'index.html': '<script type="module" src="/page.js"></script>' }
  return [
    javaScript('npm', `npm install --registry ${registry} && npm ci --registry ${registry} && node main.js`),
    javaScript('pnpm', 'pnpm install && pnpm exec node main.js', { '.npmrc': npmrc }),
    javaScript('yarn', 'yarn install && yarn node main.js', {
      'yarn.lock': '',
      '.yarnrc.yml': `npmRegistryServer: ${registry}\nunsafeHttpWhitelist: ['*']\nenableTelemetry: false\nnpmMinimalAgeGate: 0\n`,
    }),
    javaScript('bun', `bun install --registry ${registry} && bun main.js`),
    javaScript('deno', 'deno install && deno run --allow-all main.mjs', {
      '.npmrc': npmrc,
      'main.mjs': `import value from '${PACKAGE}'\nconsole.log(value)\n`,
    }),
    javaScript('vite', `npm install --registry ${registry} && vite build && node dist/bundle.js`, {
      'page.js': `import value from '${PACKAGE}'\nconsole.log(value)\n`,
      'vite.config.js': `module.exports = { build: { lib: { entry: 'page.js', formats: ['cjs'], fileName: () => 'bundle.js' } } }`,
      ...page,
    }),
    {
      name: 'pip',
      files: {},
      command: `python3 -m venv .venv && .venv/bin/pip install --trusted-host ${new URL(registry).hostname} -i ${registry}/simple ${PACKAGE} && .venv/bin/python -c 'import nacre_probe; print(nacre_probe.value)'`,
    },
    {
      name: 'uv',
      files: {
        'pyproject.toml': `[project]\nname = 'project'\nversion = '1'\nrequires-python = '>=3.8'\ndependencies = ['${PACKAGE}']\n`,
      },
      command: `uv sync --default-index ${registry}/simple && uv run --no-sync python -c 'import nacre_probe; print(nacre_probe.value)'`,
    },
    {
      name: 'cargo',
      files: {
        'Cargo.toml': `[package]\nname = 'project'\nversion = '1.0.0'\nedition = '2021'\n[dependencies]\n${PACKAGE} = '1'\n`,
        '.cargo/config.toml': `[source.crates-io]\nreplace-with = 'test'\n[source.test]\nregistry = 'sparse+${registry}/crates/'\n`,
        'src/main.rs': 'fn main() { println!("{}", nacre_probe::VALUE) }',
      },
      command: 'cargo build && cargo test && cargo run',
    },
    {
      name: 'go',
      files: {
        'go.mod': `module project\n\ngo 1.19\n\nrequire ${MODULE} v1.0.0\n`,
        'main.go': `package main\n\nimport (\n\t"fmt"\n\n\t"${MODULE}"\n)\n\nfunc main() { fmt.Println(probe.Value) }\n`,
      },
      command: `export GOPROXY=${registry}/go GONOSUMDB='*' GOFLAGS=-mod=mod && go mod tidy && go vet . && go build -o project . && ./project`,
    },
    {
      name: 'gh',
      files: {},
      // It sends no token to a server that it does not know.
      command: `GH_TOKEN=token gh api ${registry}/${PACKAGE} --jq .versions[].description`,
    },
    {
      name: 'playwright',
      files: {
        'page.js': `const { chromium } = require('playwright-core')
          void (async () => {
            const browser = await chromium.launch({ executablePath: process.env.CHROMIUM })
            const page = await browser.newPage()
            await page.setContent('<p>${VALUE}</p>')
            console.log(await page.textContent('p'))
            await browser.close()
          })()`,
      },
      command: 'node page.js',
    },
    {
      name: 'git',
      files: { file: `${VALUE}\n` },
      command:
        'git init -q && git add . && git -c user.name=a -c user.email=a@example.com commit -qm one && git clone -q . copy && git -C copy log --format=%s && cat copy/file',
    },
  ]
}

interface Task {
  tools: Tool[]
  allow: string[]
  env: NodeJS.ProcessEnv
}

interface Outcome {
  results: Record<string, { exitCode: number; all: string; denials: unknown[] }>
  /** What is in the home directory at the end. */
  kept: string[]
}

/** Node.js 22 says of each program that its proxy of NODE_USE_ENV_PROXY is experimental. */
const WARNING_OF_NODE_22 = /^\(node:\d+\) \[UNDICI-EHPA\] Warning: .*\n\(Use `node --trace-warnings .*\n?/gm

/** Expects that tools work with the preset `workspace`, each in a sandbox of its own. */
export async function expectToWork(
  programs: Programs,
  tier: Tier,
  { tools, allow, env }: Task,
): Promise<void> {
  const isolation = { preset: 'workspace', network: { allow } }
  const { results, kept } = await programs.run<Outcome>(tier, 'tools-runner.mjs', { tools, isolation, env })
  const failed = tools.filter(({ name }) => {
    const { exitCode, all = '', denials } = results[name] ?? {}
    const printed = all.replace(WARNING_OF_NODE_22, '').trimEnd()
    return exitCode !== 0 || denials?.length !== 0 || !printed.endsWith(VALUE)
  })
  expect(failed.map(({ name }) => [name, results[name]])).toEqual([])
  expect(kept).toEqual([])
}
