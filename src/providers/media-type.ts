/** Media types of images in the form that providers accept. */

/** `image/jpg`, a common misspelling, and capitals are rejected by strict providers. */
export function mediaType(given: string): string {
  const type = given.toLowerCase()
  return type === 'image/jpg' ? 'image/jpeg' : type
}
