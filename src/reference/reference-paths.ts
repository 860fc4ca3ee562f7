/** The addresses of the reference on the admin port. */

export const REFERENCE_FILES = {
  page: '/docs',
  style: '/docs/style.css',
  script: '/docs/script.js',
  icon: '/docs/icon.svg',
  document: '/openapi.json',
} as const

export type ReferencePath = (typeof REFERENCE_FILES)[keyof typeof REFERENCE_FILES]

/** All of them. They need no token, because they hold nothing of this weir. */
export const REFERENCE_PATHS: readonly ReferencePath[] = Object.values(REFERENCE_FILES)
