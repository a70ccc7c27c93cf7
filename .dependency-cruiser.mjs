/**
 * The layers of lib/: no cycles, and each layer imports only from itself and from those before it in this list. The companion
 * packages import what nacre exports.
 *
 *   npm run check:structure
 */
const LAYERS = [
  ['base', '^lib/base/'],
  ['schema', '^lib/schema/'],
  ['calls', '^lib/calls/'],
  ['protocol', '^lib/protocol/'],
  ['requests', '^lib/requests/'],
  ['run', '^lib/run/'],
  ['jobs', '^lib/jobs/'],
  ['sandbox', '^lib/sandbox/'],
  ['boundary', '^lib/boundary/'],
  ['addon', '^lib/addon/'],
  ['backends', '^lib/backends/'],
  ['entry points', '^lib/(container|engine|otel)/|^lib/[^/]+[.]ts$'],
  ['command line', '^lib/cli/'],
]

const layers = LAYERS.slice(0, -1).map(([name, path], at) => ({
  name: `${name} import only from layers before them`,
  severity: 'error',
  from: { path },
  to: { path: LAYERS.slice(at + 1).map(([, above]) => above) },
}))

const backends = ['native', 'http'].map((name) => ({
  name: `the backend ${name} imports from no other`,
  severity: 'error',
  from: { path: `^lib/backends/${name}/` },
  to: { path: '^lib/backends/', pathNot: `^lib/backends/${name}/` },
}))

export default {
  forbidden: [
    { name: 'no cycle', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'what runs commands has modules of Node from lib/base/builtin.ts only',
      severity: 'error',
      from: { path: [...LAYERS.slice(0, -2).map(([, path]) => path), '^lib/(container|engine)/'] },
      to: { dependencyTypes: ['core'], dependencyTypesNot: ['type-only'] },
    },
    ...layers,
    {
      name: 'nacre imports from no companion package',
      severity: 'error',
      from: { path: '^lib/' },
      to: { path: '^packages/' },
    },
    {
      name: 'a companion package imports only what nacre and other packages export',
      severity: 'error',
      from: { path: '^packages/([^/]+)/' },
      to: { path: ['^lib/', '^packages/[^/]+/lib/'], pathNot: '^packages/$1/' },
    },
    ...backends,
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
  },
}
