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

/** The public types, which every layer names, with the tables of options and results below them. */
const CALLS = '^lib/calls/'

const layers = LAYERS.slice(0, -1).map(([name, path], at) => ({
  name: `${name} import only from layers before them, and types from calls`,
  severity: 'error',
  from: { path },
  to: { path: LAYERS.slice(at + 1).map(([, above]) => above), pathNot: CALLS },
}))

const belowCalls = {
  name: 'layers before calls import only types from them',
  severity: 'error',
  from: {
    path: LAYERS.slice(
      0,
      LAYERS.findIndex(([, path]) => path === CALLS),
    ).map(([, path]) => path),
  },
  to: { path: CALLS, dependencyTypesNot: ['type-only'] },
}

const backends = ['native', 'http'].map((name) => ({
  name: `the backend ${name} imports from no other`,
  severity: 'error',
  from: { path: `^lib/backends/${name}/` },
  to: { path: '^lib/backends/', pathNot: `^lib/backends/${name}/` },
}))

export default {
  forbidden: [
    // Public types refer to each other.
    {
      name: 'no cycle',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { pathNot: CALLS } },
    },
    {
      name: 'no cycle of modules that run',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'what runs commands has modules of Node from lib/base/builtin.ts only',
      severity: 'error',
      from: { path: [...LAYERS.slice(0, -2).map(([, path]) => path), '^lib/(container|engine)/'] },
      to: { dependencyTypes: ['core'], dependencyTypesNot: ['type-only'] },
    },
    ...layers,
    belowCalls,
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
