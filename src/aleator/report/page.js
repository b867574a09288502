"use strict";
// The slider: looks the figures up that the library computed, moves the marker, hides rows. Nothing is computed here.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const slider = at("share"), marker = at("marker"), picture = marker.ownerSVGElement;
  const [left, right, bottom, top] = picture.dataset.ends.split(" ").map(Number);
  const high = Number(picture.dataset.y.split(" ")[1]);
  const rows = [...document.querySelectorAll("#refused-rows tbody tr")];
  const dots = [...document.querySelectorAll("#dots circle")];
  const whole = (n) => n.toLocaleString("en-US");

  function show() {
    const share = Number(slider.value), n = data.refused[share];
    at("percent").textContent = share + " %";
    slider.setAttribute("aria-valuetext", `${share} % refused, error ${data.error[share]}`);
    at("error").textContent = data.error[share];
    at("saved").textContent = data.saved[share];
    at("way").textContent = data.exact[share] > data.exact[0] ? "more" : "less";
    at("kept").textContent = whole(data.n - n);
    at("refused").textContent = whole(n);
    const x = left + (share / 100) * (right - left);
    const y = bottom - (data.exact[share] / high) * (bottom - top);
    marker.querySelector("line").setAttribute("x1", x);
    marker.querySelector("line").setAttribute("x2", x);
    marker.querySelector("circle").setAttribute("cx", x);
    marker.querySelector("circle").setAttribute("cy", y);
    rows.forEach((row, k) => { row.hidden = k >= n; });
    dots.forEach((dot) => { dot.classList.toggle("out", Number(dot.dataset.rank) < n); });
    at("refused-note").textContent = n === 0 ? "None."
      : n > rows.length ? `The first ${whole(rows.length)} of ${whole(n)}.` : `${whole(n)} of ${whole(data.n)} rows.`;
  }
  document.documentElement.classList.add("scripted");
  slider.addEventListener("input", show);
  show();
})();
