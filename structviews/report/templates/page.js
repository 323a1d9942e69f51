"use strict";
(() => {
  // Points: show the sentence under the pointer, and highlight it in every plot of the same sentences.
  const data = document.getElementById("points");
  const points = data ? JSON.parse(data.textContent) : null;
  const tip = document.getElementById("tip");
  const clouds = [...document.querySelectorAll(".cloud")].map((box) => {
    const svg = box.querySelector("svg");
    const at = [];
    svg.querySelectorAll(".points use").forEach((use, i) => {
      at[points.order[i]] = [use.x.baseVal.value, use.y.baseVal.value];
    });
    const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    ring.setAttribute("class", "ring");
    ring.setAttribute("r", 5);
    ring.setAttribute("visibility", "hidden");
    svg.append(ring);
    return { box, svg, at, ring };
  });

  const hide = () => {
    tip.hidden = true;
    clouds.forEach(({ ring }) => ring.setAttribute("visibility", "hidden"));
  };

  const show = (row, left, top) => {
    clouds.forEach(({ at, ring }) => {
      ring.setAttribute("cx", at[row][0]);
      ring.setAttribute("cy", at[row][1]);
      ring.setAttribute("visibility", "visible");
    });
    tip.replaceChildren(points.texts[row]);
    if (points.labels.length) {
      const label = document.createElement("b");
      label.textContent = points.labels[row];
      tip.prepend(label);
    }
    tip.hidden = false;
    const room = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(left + 14, innerWidth - room.width - 4))}px`;
    tip.style.top = `${top + room.height + 20 > innerHeight ? top - room.height - 10 : top + 16}px`;
  };

  const nearest = ({ svg, at }, event) => {
    const screen = svg.getScreenCTM();
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(screen.inverse());
    let best = -1;
    let least = (14 / screen.a) ** 2;
    at.forEach(([px, py], row) => {
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [row, distance];
    });
    return best;
  };

  clouds.forEach((cloud) => {
    let row = 0;
    const point = (event) => {
      const found = nearest(cloud, event);
      if (found < 0) return hide();
      row = found;
      show(row, event.clientX, event.clientY);
    };
    cloud.box.addEventListener("pointermove", point);
    cloud.box.addEventListener("pointerdown", point);
    cloud.box.addEventListener("pointerleave", hide);
    cloud.box.addEventListener("blur", hide);
    cloud.box.addEventListener("keydown", ({ key }) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
      if (key === "Escape") hide();
      if (!step) return;
      row = (row + step + cloud.at.length) % cloud.at.length;
      const at = new DOMPoint(...cloud.at[row]).matrixTransform(cloud.svg.getScreenCTM());
      show(row, at.x, at.y);
    });
  });

  // Legends: highlight what is pointed at; a click keeps it highlighted.
  document.querySelectorAll(".legend").forEach((legend) => {
    const parts = [...legend.parentElement.querySelectorAll(legend.dataset.of)];
    const buttons = [...legend.querySelectorAll("button")];
    let kept = null;
    const light = (button) => {
      parts.forEach((part) => part.classList.toggle("dim", Boolean(button) && !part.matches(button.dataset.part)));
      buttons.forEach((other) => other.classList.toggle("dim", Boolean(button) && other !== button));
    };
    buttons.forEach((button) => {
      button.addEventListener("pointerenter", () => light(button));
      button.addEventListener("pointerleave", () => light(kept));
      button.addEventListener("click", () => {
        kept = kept === button ? null : button;
        buttons.forEach((other) => other.setAttribute("aria-pressed", other === kept));
        light(kept);
      });
    });
  });

  // Only what scrolls is a stop for the Tab key.
  const stops = () => document.querySelectorAll(".wide").forEach((box) => {
    box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
  });
  stops();
  addEventListener("resize", stops);
  document.addEventListener("toggle", stops, true);
})();
