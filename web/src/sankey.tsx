// Where GPU time went: the server's drawing, coloured by the page, each loss a link to who is
// behind it.
import { apiUrl, Sankey } from './api';
import { useApi } from './live';
import { CsvButton, Empty, Section, Waiting } from './ui';
import { WindowNote } from './usage';

// Losses that jobs can be ranked by, and what a ranking by them is called.
export const jobLosses: Record<string, string> = {
  unmeasured: 'GPU-h not measured',
  allocated_idle: 'GPU-h held idle',
  sm_idle: 'GPU-h, SMs idle',
  tensor_idle: 'GPU-h, tensor idle',
  below_full_clock: 'GPU-h below clock',
};

function figures(sankey: Sankey) {
  return {
    header: ['kind', 'name', 'gpu_seconds', 'of_deployed', 'coverage'],
    rows: [
      ...sankey.levels.map((l) => ['level', l.name, l.gpu_seconds, l.of_deployed, l.coverage]),
      ...sankey.losses.map((l) => ['loss', l.name, l.gpu_seconds, l.of_deployed, null]),
    ],
  };
}

export function SankeySection({ from, to }: { from: string; to: string }) {
  const sankey = useApi<Sankey>(apiUrl('sankey', { from, to }));
  const drawing = useApi<string>(apiUrl('sankey', { from, to, format: 'svg' }));
  return (
    <Section
      title="Where GPU time went"
      actions={
        sankey.data && (
          <>
            <WindowNote window={sankey.data.window} />
            <CsvButton file="sankey.csv" make={() => figures(sankey.data as Sankey)} />
          </>
        )
      }
    >
      <Waiting loaded={drawing} height={360}>
        {(svg) =>
          sankey.data?.deployed_gpu_seconds === 0 ? (
            <Empty title="No GPU was there in this window" />
          ) : (
            // The drawing is the server's own, of names it declares: nothing in it comes from
            // elsewhere.
            <div class="sankey" dangerouslySetInnerHTML={{ __html: svg }} />
          )
        }
      </Waiting>
      {sankey.data && sankey.data.notes.length > 0 && (
        <ul class="sankey-notes">
          {sankey.data.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </Section>
  );
}
