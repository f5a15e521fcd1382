import type { Track } from '../../core/contract.ts';
import { schedule } from '../../core/triggers.ts';

/** What was written down since the app started. What has to last goes into a file of the folder that the app runs in: process.cwd(). */
const notes: string[] = [];

export default {
  name: 'NAME',
  title: 'TITLE',
  description: 'Writes down what it is told.',

  tools: [
    {
      name: 'NAME.write',
      description: 'Write a line down.',
      input: { type: 'object', properties: { text: { type: 'string', minLength: 1, maxLength: 1000 } }, required: ['text'], additionalProperties: false },
      async run({ text }: { text: string }, ctx) {
        notes.push(text);
        ctx.log(`written down: ${text}`);
        return { lines: notes.length };
      },
    },
  ],

  triggers: [
    schedule({
      name: 'evening',
      dailyAt: '18:00',
      weekdays: ['mon', 'tue', 'wed', 'thu', 'fri'],
      task: () => ({ title: 'TITLE: the day', worker: 'fake', prompt: 'call NAME.write {"text":"Another day is over"}', tools: ['NAME.write'] }),
    }),
  ],

  routes: {
    'GET /': () => new Response(page, { headers: { 'content-type': 'text/html; charset=utf-8' } }),
    'GET /notes': () => Response.json(notes),
  },

  apps: [{ name: 'NAME', title: 'TITLE', href: '/' }],
} satisfies Track;

const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>TITLE</title>
<link rel="stylesheet" href="/kit/gurtos.css">
<script src="/kit/gurtos.js"></script>
<main class="page">
  <h1>TITLE</h1>
  <ul class="list" id="notes"></ul>
  <p class="empty" id="empty" hidden>Nothing is written down yet.</p>
</main>
<script>
fetch('./notes').then((answer) => answer.json()).then((notes) => {
  document.getElementById('notes').replaceChildren(...notes.map((text) => Object.assign(document.createElement('li'), { textContent: text })));
  document.getElementById('empty').hidden = notes.length > 0;
});
</script>
</html>
`;
