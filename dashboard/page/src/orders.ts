// Orders to the server. They need the token that is in the address of the page, behind the #.

const token = location.hash.slice(1);

/** Whether the page was opened with a token; without, it only shows. */
export const mayControl = token !== "";

/** Has an order carried out. The error, if it fails, has a sentence for people. */
export async function ask<Answer = { text?: string }>(order: Record<string, unknown>): Promise<Answer> {
  const reply = await fetch("/do", {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify(order),
  });
  const answer = (await reply.json()) as { ok?: Answer; error?: string };
  if (answer.error !== undefined) throw new Error(answer.error);
  return answer.ok as Answer;
}
