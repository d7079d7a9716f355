"use strict";
// The board's page: it asks for itself again when something moved, counts times
// on, and hears keys. Without it the page is complete and stands still.
(() => {
  const page = document.body.dataset.page;
  const thread = document.body.dataset.thread;
  const moved = new Set();
  const seen = new Map(); // what each live part was, as the server wrote it
  let asking = false, again = false, timer = 0, picked = "", last = 0;

  const live = () => document.querySelectorAll("[data-live]");
  const rows = () => [...document.querySelectorAll("[data-row]")];

  // Times.
  const zones = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  function ago(then) {
    const s = Math.round((Date.now() - then) / 1000);
    const text = Math.abs(s) < 60 ? Math.abs(s) + "s" : Math.abs(s) < 3600 ? Math.floor(Math.abs(s) / 60) + "m"
      : Math.abs(s) < 172800 ? Math.floor(Math.abs(s) / 3600) + "h" : Math.floor(Math.abs(s) / 86400) + "d";
    return s < -1 ? "in " + text : s < 2 ? "now" : text + " ago";
  }
  function lasted(ms) {
    const s = Math.max(0, Math.floor(ms / 1000)), two = (n) => String(n).padStart(2, "0");
    if (s < 60) return s + "s";
    if (s < 3600) return Math.floor(s / 60) + "m " + two(s % 60) + "s";
    return Math.floor(s / 3600) + "h " + two(Math.floor(s / 60) % 60) + "m";
  }
  function tick() {
    for (const t of document.querySelectorAll("time[datetime]")) {
      const then = Date.parse(t.dateTime);
      if (!t.title) t.title = zones.format(then);
      const text = t.closest(".log") ? new Date(then).toLocaleTimeString(undefined, { hour12: false }) : ago(then);
      if (t.textContent !== text) t.textContent = text;
    }
    for (const t of document.querySelectorAll("[data-since]")) t.textContent = lasted(Date.now() - Date.parse(t.dataset.since));
  }

  // Asking again: only the parts that differ are put in place, none that is being typed into.
  function busy(part) {
    const at = document.activeElement;
    return part.contains(at) && /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName);
  }
  function put(fresh) {
    for (const part of live()) {
      const other = fresh.getElementById(part.id);
      if (!other || busy(part)) continue;
      const text = other.innerHTML;
      if (seen.get(part.id) === text) continue;
      const focus = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      part.innerHTML = text;
      seen.set(part.id, text);
      if (focus) part.querySelector(`a[href="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
    }
    for (const row of rows()) {
      if (moved.has(row.dataset.key)) row.classList.add("moved");
      row.classList.toggle("picked", row.dataset.key === picked);
    }
    moved.clear();
    tick();
  }
  async function ask() {
    if (asking || document.hidden) { again = true; return; }
    asking = true; again = false; last = Date.now();
    try {
      const answer = await fetch(location.pathname + location.search, { headers: { "Accept": "text/html", "X-Rota-Refresh": "1" }, redirect: "error" });
      if (answer.ok) put(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { again = true; } finally { asking = false; }
    if (again) soon();
  }
  function soon() {
    clearTimeout(timer);
    timer = setTimeout(ask, Math.max(60, 600 - (Date.now() - last)));
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden && again) ask(); });

  // Events. A page that nobody sees listens to nothing: a browser has few connections.
  const sign = document.getElementById("live");
  let source = null, before = false;
  function say(text, on, title) {
    sign.textContent = text; sign.className = on ? "live on" : "live"; sign.title = title;
  }
  function listen() {
    if (source || document.hidden) return;
    source = new EventSource("/events" + (thread ? "?thread=" + encodeURIComponent(thread) : ""));
    source.addEventListener("hello", () => {
      say("live", true, "changes are shown as they happen");
      if (before) soon();
      before = true;
    });
    source.addEventListener("move", (e) => {
      const m = JSON.parse(e.data);
      moved.add(m.turn); moved.add(m.turn.split("/")[0]);
      soon();
    });
    source.addEventListener("error", () => {
      say("offline", false, "connecting again");
      if (source.readyState === EventSource.CLOSED) { stop(); setTimeout(listen, 5000); }
    });
  }
  function stop() { source?.close(); source = null; }
  if (sign && page !== "error") {
    addEventListener("pagehide", stop);
    addEventListener("pageshow", listen);
    document.addEventListener("visibilitychange", () => { if (document.hidden) stop(); else listen(); });
    if (page === "services" || page === "credentials") setInterval(() => { if (!document.hidden) soon(); }, 5000);
    listen();
  }

  // Keys.
  const places = { t: "/", d: "/dead", s: "/services", c: "/credentials", p: "/schedules" };
  let going = false;
  function pick(step) {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((r) => r.dataset.key === picked);
    const row = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))];
    for (const r of all) r.classList.toggle("picked", r === row);
    picked = row.dataset.key;
    row.querySelector("[data-open]")?.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }
  const keys = document.getElementById("keys");
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName);
    if (e.key === "Escape" && typing) { e.target.blur(); return; }
    if (typing || keys.open) return;
    if (going) {
      going = false;
      if (places[e.key]) { location.href = places[e.key]; e.preventDefault(); }
      return;
    }
    const find = document.getElementById("find");
    switch (e.key) {
      case "j": pick(1); break;
      case "k": pick(-1); break;
      case "u": { const ups = document.querySelectorAll("[data-up]"); if (ups.length) location.href = ups[ups.length - 1].href; else return; break; }
      case "g": going = true; setTimeout(() => { going = false; }, 1000); break;
      case "/": if (find) { find.focus(); find.select(); } else location.href = "/#find"; break;
      case "?": keys.showModal(); break;
      default: return;
    }
    e.preventDefault();
  });
  document.getElementById("keys-open")?.addEventListener("click", () => keys.showModal());
  document.addEventListener("submit", (e) => {
    const question = e.target.dataset.confirm;
    if (question && !confirm(question)) e.preventDefault();
  });

  for (const part of live()) seen.set(part.id, part.innerHTML);
  if (location.hash === "#find") document.getElementById("find")?.focus();
  tick();
  setInterval(tick, 1000);
})();
