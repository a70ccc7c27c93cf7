/** Secrets that programs use but never see. */

import { invalidOption } from '../base/errors.js'
import { byName, either, list, mapped, object, oneOf, text } from '../schema/constructors.js'
import { VARIABLE_NAME } from '../schema/env.js'
import type { CheckedPlace, CheckedSecret } from '../schema/isolation-rules.js'
import { type Kind, table } from '../schema/kind.js'
import { count } from '../schema/numbers.js'
import { origin } from '../schema/targets.js'
import { callback } from '../schema/values.js'

/** A value that programs use but never see. */
export interface Secret {
  /**
   * The value: 8 to 8192 characters of printable ASCII, without a blank at an end. It is in no reply, event or log. A function is
   * called for the first request to one of the hosts, after `refresh`, and for the next request after a 401. While it fails, these
   * requests get a 502. It works only in this process, not with a `SandboxClient`, and needs a `placeholder`.
   */
  value: string | (() => string | Promise<string>)
  /** The hosts whose requests may have it, like 'api.github.com' or 'registry.example.com:8443'. Without a port, 443. */
  hosts: string[]
  /**
   * Where requests may have it: the header Authorization as a whole credential or a part of Basic, another header, a parameter
   * of the query, or anywhere in an uncompressed body. 'aws-signature': nowhere, and requests that programs sign with the
   * placeholder by AWS Signature Version 4 are signed with it. Default: ['authorization'].
   */
  in?: ('authorization' | 'body' | 'aws-signature' | { header: string } | { query: string })[]
  /**
   * What programs see instead, with at least 16 letters and digits. Default: random text of the value's form and length.
   */
  placeholder?: string
  /**
   * The programs whose requests may have it, as keys of {@link NetworkRules.programs}. They alone reach its hosts, unless `allow`
   * has these. Default: all programs.
   */
  programs?: string[]
  /** Milliseconds until a function is called again, 1000 to 86400000. Default: no limit. */
  refresh?: number
}

const LONGEST_VALUE = 8192
const MAX_SECRETS = 50
const MAX_HOSTS = 50
const MAX_PROGRAMS = 8
const MAX_PLACES = 16
const MAX_AUTHORITIES = 20
const LONGEST_AUTHORITIES = 65_536

/** Values are often given in the wrong place: no message about a secret shows what was given. */
const SECRET = { isSecret: true }

const VALUE_RULE = `must be text of 8 to ${LONGEST_VALUE} characters of printable ASCII, without line breaks and blanks at an end`
const VALUE = /^[\x21-\x7e][\x20-\x7e]{6,8190}[\x21-\x7e]$/

export const valueText = text((value) => VALUE.test(value), VALUE_RULE, {
  bounds: `8 to ${LONGEST_VALUE} characters`,
  ...SECRET,
})

const value = {
  ...either(
    callback,
    (given) => typeof given === 'function',
    valueText,
    `${valueText.bounds}, or a function`,
  ),
  json: { schema: { type: 'string' } } as const,
}

/** Neither what frames a request, nor what the connection needs. */
const RESERVED =
  /^(?:host|connection|content-.*|transfer-encoding|te|trailer|upgrade|expect|keep-alive|accept-encoding|proxy-.*|sec-websocket-.*)$/i

const headerPlace = object(
  {
    header: text(
      (name) => /^[\w!#$%&'*+.^`|~-]{1,100}$/.test(name) && !RESERVED.test(name),
      'must be the name of a header that may have a credential',
      SECRET,
    ),
  },
  ['header'],
  'an object',
  SECRET,
)
const queryPlace = object(
  {
    query: text(
      (name) => /^[\x21-\x7e]{1,100}$/.test(name),
      'must be the name of a parameter in ASCII',
      SECRET,
    ),
  },
  ['query'],
  'an object',
  SECRET,
)
const word = oneOf(['authorization', 'body', 'aws-signature'])
const PLACES = "'authorization', 'body', 'aws-signature', { header: 'x-api-key' } or { query: 'key' }"

const place: Kind<CheckedPlace> = {
  read(given, name) {
    if (given === 'authorization' || given === 'body' || given === 'aws-signature') return given
    if (typeof given !== 'object' || given === null || Array.isArray(given))
      throw invalidOption(`${name} must be ${PLACES}`)
    return 'query' in given ? queryPlace.read(given, name) : headerPlace.read(given, name)
  },
  json: {
    schema: {
      anyOf: [word, headerPlace, queryPlace].map(({ json }) => ({
        schema: json?.schema ?? { type: 'string' },
      })),
    },
  },
  bounds: PLACES,
}

const PLACEHOLDER_RULE = 'must have at least 16 letters and digits, and beside these only - _ and .'

export const secretOptions = table<Secret>()({
  value,
  hosts: list(origin(SECRET), MAX_HOSTS, {
    rule: `must be a list of at most ${MAX_HOSTS} hosts`,
    bounds: `1 to ${MAX_HOSTS} like 'api.example.com' or 'api.example.com:8443'`,
    ...SECRET,
  }),
  in: list(place, MAX_PLACES, {
    rule: `must be a list of at most ${MAX_PLACES} places`,
    bounds: `1 to ${MAX_PLACES} of ${PLACES}`,
    ...SECRET,
  }),
  placeholder: text(
    (given) => /^[\w.-]{16,8192}$/.test(given) && given.replace(/[^A-Za-z0-9]/g, '').length >= 16,
    PLACEHOLDER_RULE,
    { bounds: 'at least 16 letters and digits', ...SECRET },
  ),
  programs: list(
    text(() => true, 'must be a key of isolation.network.programs', SECRET),
    MAX_PROGRAMS,
    {
      rule: `must be a list of at most ${MAX_PROGRAMS} programs`,
      bounds: `1 to ${MAX_PROGRAMS} keys of network.programs`,
      ...SECRET,
    },
  ),
  refresh: count(1000, 86_400_000, 'ms'),
})

// The table has any function, and the text that it returns is checked.
const secret = object(secretOptions, ['value', 'hosts'], 'an object', SECRET) as Kind<Secret, CheckedSecret>

/** Names that a session needs, or that nacre sets itself. */
const TAKEN =
  /^(?:path|home|(?:old)?pwd|shell|shlvl|user|logname|tmpdir|ifs|e?uid|ppid|_|bash.*|(?:https?|all|no)_proxy|node_use_env_proxy|ssl_cert_file|(?:requests|curl|aws)_ca_bundle|git_ssl_cainfo|pip_cert|cargo_http_cainfo|grpc_default_ssl_roots_file_path|bundle_ssl_ca_cert|perl_lwp_ssl_ca_file|httplib2_ca_certs|cloudsdk_core_custom_ca_certs_file|nix_ssl_cert_file|npm_config_cafile|node_extra_ca_certs|deno_cert|java_tool_options)$/i

/** Checks what secrets have to do with one another. Messages show no value. */
function checkTogether(secrets: Record<string, CheckedSecret>, name: string): void {
  const all = Object.entries(secrets)
  for (const [key, { value, hosts, placeholder, refresh, programs, in: places }] of all) {
    const of = `${name}.${key}`
    if (hosts.length === 0)
      throw invalidOption(`${of}.hosts must name at least one host: the secret would go nowhere`)
    if (places?.length === 0)
      throw invalidOption(`${of}.in must name at least one place: leave it out for ['authorization']`)
    if (programs?.length === 0)
      throw invalidOption(`${of}.programs must name at least one program: leave it out for all programs`)
    if (placeholder === undefined && typeof value === 'function')
      throw invalidOption(
        `${of}.placeholder is required, since its value is a function: write text of the form that tools expect`,
      )
    if (refresh !== undefined && typeof value !== 'function')
      throw invalidOption(`${of}.refresh needs a function as value: leave it out`)
    if (placeholder === undefined) continue
    for (const [other, { value, placeholder: another }] of all) {
      if (typeof value === 'string' && (placeholder.includes(value) || value.includes(placeholder)))
        throw invalidOption(`${of}.placeholder must have nothing of the value of ${other}`)
      if (other !== key && another?.includes(placeholder))
        throw invalidOption(`${of}.placeholder must not be a part of that of ${other}`)
    }
  }
}

/** Secrets by the names of their variables. */
export const secrets: Kind<Record<string, Secret>, Record<string, CheckedSecret>> = mapped(
  byName(
    secret,
    MAX_SECRETS,
    {
      what: 'secrets',
      rule: "must be an object like { TOKEN: { value, hosts: ['api.example.com'] } }",
      bounds: `at most ${MAX_SECRETS} by the names of variables`,
      ...SECRET,
    },
    (key, name) => {
      if (!VARIABLE_NAME.test(key))
        throw invalidOption(`${name} has a name that no variable can have: use letters, digits and _`)
      if (TAKEN.test(key))
        throw invalidOption(`${name} has the name ${key}, which the session needs: choose another one`)
      return { key, owner: `${name}.${key}` }
    },
  ),
  (checked, name) => {
    checkTogether(checked, name)
    return checked
  },
)

const isCertificates = (pem: string) => {
  const rest = pem.replace(/-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g, '')
  return rest !== pem && !rest.includes('-----')
}

/** Certificates of authorities. The engine's host also parses them. */
export const authorities = list(
  text(
    (pem) => pem.length <= LONGEST_AUTHORITIES && isCertificates(pem),
    `must be certificates as PEM, at most ${LONGEST_AUTHORITIES} characters`,
    { isSecret: true },
  ),
  MAX_AUTHORITIES,
  {
    rule: `must be a list of at most ${MAX_AUTHORITIES} texts with certificates`,
    bounds: `at most ${MAX_AUTHORITIES} texts with certificates as PEM`,
  },
)
