/** A provider's words, fit to be shown to a caller: without keys, addresses and the operator's accounts. */

const CHARS_MAX = 500

/** What is taken out, and what stands in its place. In this order: URLs before the host names that they hold. */
const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*/g, '[redacted]'],
  [/\blocalhost\b(?::\d+)?/gi, '[host]'],
  [
    /\b(deployment|account|project|organization|organisation|subscription|tenant|resource)(\s+(?:id\s+)?|[=:]\s*)['"`]?[\w.-]*[\d_-][\w.-]*['"`]?/gi,
    '$1$2[redacted]',
  ],
  [/\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>)\]}]+/gi, '[url]'],
  [/\b(?:Bearer|Basic)\s+[^\s"',;]+/gi, '[credential]'],
  [/\beyJ[\w-]{8,}(?:\.[\w-]+)*/g, '[credential]'],
  // Whatever is called a key and holds a digit; "unknown key: temperature" is of use.
  [
    /\b((?:x-)?(?:api[-_ ]?)?key|(?:access[-_ ]?)?token|secret|password|credential)(\s*[=:]\s*|\s+)['"`]?(?=[\w./+=-]*\d)[\w./+=-]{8,}/gi,
    '$1$2[redacted]',
  ],
  [
    /\b(projects|subscriptions|resourceGroups|accounts|organizations|tenants|deployments|endpoints)\/[\w.-]+/g,
    '$1/[redacted]',
  ],
  [/(?<![\w.])\/(?:var|home|root|usr|opt|srv|mnt|etc|tmp|data|app|models?|workspace)\/[^\s'"`,;)]+/g, '[path]'],
  [/\b(?:sk|pk|rk|gwk|key|gsk|xai|AIza|AKIA|ASIA|ghp|hf|org|proj|acct|req|sess)[-_]?[\w*.-]{8,}/g, '[redacted]'],
  [/\barn:[\w:/.-]+/gi, '[redacted]'],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '[redacted]'],
  [/\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g, '[address]'],
  [/\[?(?<!\w)(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{1,4}\]?(?::\d+)?/gi, '[address]'],
  [
    /\[?(?<!\w)(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?\]?(?::\d+)?/gi,
    '[address]',
  ],
  [
    /\b(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:com|net|org|io|ai|dev|cloud|tech|xyz|internal|local|lan|corp|home|svc|cluster|test|invalid|azure|app|co|eu|us|uk|de|fr|nl|ch|se|jp|ca|au|cn)\b(?::\d+)?/gi,
    '[host]',
  ],
  // A name with a port, where the name is none of a field's.
  [/\b(?=[a-z0-9-]*[-.])[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*:\d{2,5}\b/gi, '[host]'],
  [/\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{32,}\b/g, '[redacted]'],
  [/\b(?=[\w/+]*\d)(?=[\w/+]*[A-Z])[\w/+]{40,}={0,2}/g, '[redacted]'],
  [/\b\d{12,}\b/g, '[redacted]'],
]

/** At most 500 characters of the text, on one line, with whatever looks like a secret replaced. `hide` are further words to take out: the operator's own. */
export function scrub(text: string, hide: readonly string[] = []): string {
  let clean = text.slice(0, 4 * CHARS_MAX)
  for (const word of hide) if (word.length >= 4) clean = clean.replaceAll(word, '[redacted]')
  for (const [pattern, instead] of SECRETS) clean = clean.replace(pattern, instead)
  clean = clean.replace(/\s+/g, ' ').trim()
  return clean.length > CHARS_MAX ? `${clean.slice(0, CHARS_MAX - 1)}…` : clean
}
