// The frame of a page that is one list of a window: filters, a table, its pages, and the same as
// CSV.
import { ComponentChildren } from 'preact';
import { TimeWindow } from './api';
import { Cell } from './csv';
import { Loaded } from './live';
import { withQuery } from './route';
import { CsvButton, Pager, Section, Table, TableColumn, Waiting } from './ui';
import { WindowNote } from './usage';

export const kPage = 50; // rows of a page

export const offsetOf = (query: URLSearchParams): number =>
  Math.max(0, Number.parseInt(query.get('offset') ?? '', 10) || 0);

interface ListProps<Answer, Row> {
  title: string;
  label: string; // of the table
  what: string; // the rows are
  loaded: Loaded<Answer>;
  height: number; // while nothing is loaded yet
  // All rows, not only those of the page.
  csv?: {
    file: string;
    make: () =>
      Promise<{ header: string[]; rows: Cell[][] }> | { header: string[]; rows: Cell[][] };
  };
  filters?: ComponentChildren;
  note?: (data: Answer) => ComponentChildren; // beside the filters
  empty: ComponentChildren; // in place of a table without rows
  above?: (data: Answer) => ComponentChildren;
  total: (data: Answer) => number;
  columns: (data: Answer) => TableColumn<Row>[];
  rows: (data: Answer) => Row[]; // of this page
  rowKey: (row: Row) => string;
  offset: number;
  order?: { sort: string; direction: 'asc' | 'desc' };
  onOrder?: (sort: string, direction: 'asc' | 'desc') => void;
  children?: ComponentChildren; // below
}

export function ListSection<Answer extends object, Row>(props: ListProps<Answer, Row>) {
  const { loaded, filters, offset } = props;
  const data = loaded.data;
  return (
    <Section
      title={props.title}
      actions={
        data && (
          <>
            {'window' in data && <WindowNote window={data.window as TimeWindow} />}
            {props.csv && <CsvButton {...props.csv} />}
          </>
        )
      }
    >
      {filters && (
        <div class="filters">
          {filters}
          {data && props.note && <span class="note">{props.note(data)}</span>}
        </div>
      )}
      <Waiting loaded={loaded} height={props.height}>
        {(answer) =>
          props.total(answer) === 0 ? (
            props.empty
          ) : (
            <>
              {props.above?.(answer)}
              <Table
                label={props.label}
                columns={props.columns(answer)}
                rows={props.rows(answer)}
                rowKey={props.rowKey}
                order={props.order}
                onOrder={props.onOrder}
              />
              {props.total(answer) > kPage && (
                <Pager
                  total={props.total(answer)}
                  limit={kPage}
                  offset={offset}
                  what={props.what}
                />
              )}
            </>
          )
        }
      </Waiting>
      {props.children}
    </Section>
  );
}

// A filter that is set; a click takes it away.
export function Chip({ name, value }: { name: string; value: string }) {
  return (
    <a class="chip" href={withQuery({ [name]: null, offset: null })} title="Take this filter away">
      {name}: <b>{value}</b> <span aria-hidden="true">×</span>
    </a>
  );
}
