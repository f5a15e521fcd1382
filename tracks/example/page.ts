// The app's page. What it shows it fetches from the app's own routes; the box adds the window's token to each fetch, and /kit/gurtos.js to links, forms and
// EventSource. A module is fetched by the browser itself, so the page lends it the token with gurtos.url().

export const html = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Example</title>
<link rel="stylesheet" href="/kit/gurtos.css">
<script src="/kit/gurtos.js"></script>
<main class="page">
  <div class="row"><h1>Example</h1><span class="badge" id="live">not live</span></div>
  <section class="card">
    <h2>The list</h2>
    <form action="./list" method="post" class="stack">
      <div class="field"><label for="item">What is missing</label><input id="item" name="item" pattern="[a-z]+" required></div>
      <div class="row"><button class="primary">Put it on the list</button><a class="button" href="./tasks">All tasks</a></div>
    </form>
    <ul class="list" id="tasks"></ul>
  </section>
  <section class="card">
    <h2>Questions</h2>
    <ul class="list" id="questions"></ul>
  </section>
  <p class="small soft">Spent by tools: <span class="number" id="spent">0</span> cents</p>
</main>
<script type="module">import(gurtos.url('./page.js'));</script>
</html>
`;

export const module = `
const el = (id) => document.getElementById(id);
const get = async (path) => {
  const answer = await fetch(path);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
};

function row(text, ...more) {
  const li = document.createElement('li');
  const span = document.createElement('span');
  span.className = 'grow';
  span.textContent = text;
  li.className = 'row';
  li.append(span, ...more);
  return li;
}

function button(text, onclick) {
  const b = document.createElement('button');
  b.textContent = text;
  b.onclick = onclick;
  return b;
}

function together(buttons) {
  const span = document.createElement('span');
  span.className = 'row';
  span.append(...buttons);
  return span;
}

async function show() {
  const [tasks, questions, seen] = await Promise.all([get('./tasks'), get('./questions'), get('./seen')]);
  el('tasks').replaceChildren(...tasks.map((t) => row(t.title + ': ' + t.state)));
  el('questions').replaceChildren(...questions.map((q) => row(q.question, together([true, false].map((approved) => button(approved ? 'Yes' : 'No', async () => {
    await fetch('./answer', { method: 'POST', body: JSON.stringify({ id: q.id, approved }) });
    await show();
  }))))));
  el('spent').textContent = seen.spent;
}

const events = new EventSource('./events');
events.onopen = () => {
  el('live').textContent = 'live';
  el('live').classList.add('ok');
};
events.onmessage = show;
await show();
`;
