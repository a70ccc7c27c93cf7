/** The sidebar of the site. A page without an entry here can only be found by search. */
import { existsSync } from 'node:fs'

/** A sidebar entry, or none while its page does not exist. */
function page(text, name) {
  const exists = existsSync(new URL(`../${name}.md`, import.meta.url))
  return exists ? [{ text, link: `/${name}` }] : []
}

export function navigation(api) {
  return [
    {
      text: 'Start',
      items: [
        ...page('Install', 'install'),
        ...page('First steps', 'guide/first-steps'),
        ...page('Choose and compare', 'comparison'),
        ...page('Sessions', 'guide/sessions'),
        ...page('Streams', 'guide/streams'),
        ...page('Processes and services', 'guide/processes'),
        ...page('Ports', 'guide/ports'),
        ...page('Files', 'files'),
        ...page('Jobs', 'guide/jobs'),
        ...page('Suspend and move', 'guide/moves'),
        ...page('Command line', 'guide/command-line'),
        ...page('On a Mac', 'mac'),
        ...page('A kernel of its own', 'kernel'),
        ...page('In a virtual machine', 'vm'),
        ...page('In gVisor', 'gvisor'),
      ],
    },
    {
      text: 'Agents',
      items: [
        ...page('Parallel agents', 'guide/parallel'),
        ...page('Tools for models', 'tools'),
        ...page('MCP server', 'mcp'),
        ...page('Console', 'console'),
        ...page('Recordings', 'recordings'),
      ],
    },
    {
      text: 'Safety',
      items: [
        ...page('Isolation', 'isolation'),
        ...page('Isolated projects', 'projects'),
        ...page('Secrets', 'guide/secrets'),
        ...page('Copy-on-write workspace', 'workspace'),
        ...page('Security', 'security'),
      ],
    },
    {
      text: 'Serve',
      items: [
        ...page('HTTP', 'guide/http'),
        ...page('Over any program', 'any-pipe'),
        ...page('E2B', 'e2b'),
        ...page('Daytona', 'daytona'),
      ],
    },
    {
      text: 'Operate',
      items: [
        ...page('Deployment, fleets, sandboxd', 'deploy'),
        ...page('Queues', 'queue'),
        ...page('Tracing', 'tracing'),
      ],
    },
    {
      text: 'Reference',
      items: [
        {
          text: 'Options',
          link: '/options',
          collapsed: true,
          items: [
            ...page('Sandboxes and sessions', 'options/sandbox'),
            ...page('Commands', 'options/commands'),
            ...page('Processes and services', 'options/processes'),
            ...page('Kills, waits and logs', 'options/waits'),
            ...page('Files, jobs and workspaces', 'options/files'),
            ...page('Compatible servers, fleets, queues', 'options/fleets'),
            ...page('Remote jobs, servers, tools', 'options/servers'),
          ],
        },
        ...page('Errors', 'errors'),
        ...page('HTTP API', 'http'),
        ...page('HTTP schemas', 'reference/http'),
        ...page('Command line', 'reference/cli'),
        ...page('Benchmark', 'reference/benchmark'),
        ...page('What the benchmark means', 'measurements'),
      ],
    },
    { text: 'API', items: [...page('Overview', 'reference/api/index'), ...api] },
    {
      text: 'Internals',
      items: [
        ...page('Sessions in depth', 'sessions'),
        ...page('Processes in depth', 'processes'),
        ...page('Killing', 'killing'),
        ...page('Races', 'races'),
        ...page('Plain mode', 'plain-mode'),
        ...page('Job format', 'jobs'),
        ...page("bash's own tests", 'bash-suite'),
        ...page('Decisions', 'decisions/index'),
      ],
    },
    {
      text: 'Help',
      items: [
        ...page('Troubleshooting', 'troubleshooting'),
        ...page('Problems of agents', 'problems'),
        ...page('From the Cloudflare Sandbox SDK', 'cloudflare'),
        ...page('Migration from a FIFO engine', 'migrate'),
        ...page('Changelog', 'reference/changelog'),
      ],
    },
  ]
}
